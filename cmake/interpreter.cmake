# The interpreter that runs CUDA's kernels until they are compiled, as code that comes with the library. Each architecture
# takes NVRTC some ten seconds and 0.4 MB. Without it a machine compiles the interpreter once, behind a program.
set(SMOLDER_CUDA_ARCHITECTURES "" CACHE STRING "Architectures that the library brings an interpreter for: sm_80;sm_90;...")
if(SMOLDER_CUDA_ARCHITECTURES)
  add_executable(smolder_make_interpreter ${CMAKE_SOURCE_DIR}/cmake/make_interpreter.cpp)
  target_link_libraries(smolder_make_interpreter PRIVATE smolder smolder_options)
  add_custom_command(
    OUTPUT ${CMAKE_BINARY_DIR}/interpreter.stamp
    COMMAND smolder_make_interpreter $<TARGET_FILE_DIR:smolder> ${SMOLDER_CUDA_ARCHITECTURES}
    COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/interpreter.stamp
    DEPENDS smolder smolder_make_interpreter
    COMMENT "Compiling the interpreter for ${SMOLDER_CUDA_ARCHITECTURES}"
    VERBATIM)
  add_custom_target(smolder_interpreter ALL DEPENDS ${CMAKE_BINARY_DIR}/interpreter.stamp)
  add_dependencies(smolder_plugins smolder_interpreter)
endif()
