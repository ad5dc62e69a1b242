# The code of devices: tools/embed_device_code turns each file into a header with the texts that programs are made of, and
# leaves headers alone that would not change.
set(embed ${CMAKE_SOURCE_DIR}/tools/embed_device_code)
set(device_dir ${CMAKE_BINARY_DIR}/generated/smolder/jit/cuda/device)
file(GLOB device_code CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/jit/cuda/device/*.cuh)
set(device_headers)
foreach(code ${device_code})
  cmake_path(GET code STEM stem)
  list(APPEND device_headers ${device_dir}/${stem}.h)
endforeach()
add_custom_command(
  OUTPUT ${device_headers}
  COMMAND ${Python3_EXECUTABLE} ${embed} ${device_dir} ${device_code}
  DEPENDS ${device_code} ${embed}
  COMMENT "Embedding the code of devices"
  VERBATIM)
add_custom_target(smolder_device_code DEPENDS ${device_headers})
