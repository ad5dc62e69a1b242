# Programs for CUDA that come compiled with the library, so that first steps do not wait for NVRTC: the interpreter of
# kernels that are not compiled yet, and what is written by hand and often needed. Each architecture takes NVRTC a minute and
# a half of one processor, and 8 MB (1 MB compressed).
set(SMOLDER_CUDA_ARCHITECTURES "" CACHE STRING "Architectures that the library brings compiled programs for: sm_80;sm_90;...")
if(SMOLDER_CUDA_ARCHITECTURES)
  add_executable(smolder_make_programs ${CMAKE_SOURCE_DIR}/cmake/make_programs.cpp)
  target_link_libraries(smolder_make_programs PRIVATE smolder smolder_options)
  add_custom_command(
    OUTPUT ${CMAKE_BINARY_DIR}/programs.stamp
    COMMAND smolder_make_programs $<TARGET_FILE_DIR:smolder> ${SMOLDER_CUDA_ARCHITECTURES}
    COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/programs.stamp
    DEPENDS smolder smolder_make_programs
    COMMENT "Compiling programs for ${SMOLDER_CUDA_ARCHITECTURES}"
    VERBATIM)
  add_custom_target(smolder_programs ALL DEPENDS ${CMAKE_BINARY_DIR}/programs.stamp)
  add_dependencies(smolder_plugins smolder_programs)
endif()
