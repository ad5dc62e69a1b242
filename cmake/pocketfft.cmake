# pocketfft, which transforms on the CPU: a header alone, by its author's name or as wheels of mlx-cpu have it. Looked for
# where headers are, and where the Pythons at hand keep packages. Sets POCKETFFT_INCLUDE_DIR.
find_path(POCKETFFT_INCLUDE_DIR pocketfft_hdronly.h)
foreach(python ${Python_EXECUTABLE} ${CMAKE_SOURCE_DIR}/.venv/bin/python ${Python3_EXECUTABLE})
  if(NOT POCKETFFT_INCLUDE_DIR AND EXISTS ${python})
    execute_process(
      COMMAND ${python} -c "import sys; print(';'.join(p + '/mlx/include/mlx/3rdparty' for p in sys.path if p))"
      OUTPUT_VARIABLE pocketfft_places OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    find_path(POCKETFFT_INCLUDE_DIR pocketfft.h HINTS ${pocketfft_places} NO_DEFAULT_PATH)
  endif()
endforeach()
mark_as_advanced(POCKETFFT_INCLUDE_DIR)
if(NOT POCKETFFT_INCLUDE_DIR)
  message(FATAL_ERROR "pocketfft's header was not found. pip install mlx-cpu==0.32.4 into .venv, or the environment that "
                      "builds, brings it (tools/install_deps, in a checkout, installs all that Smolder needs); elsewhere "
                      "set POCKETFFT_INCLUDE_DIR to the folder of pocketfft_hdronly.h")
endif()
