# `cmake --install`: headers, libraries and the CMake package, so that another project says
# find_package(smolder) and links smolder::smolder.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/smolder)

install(TARGETS smolder smolder_headers EXPORT smolderTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(plugin smolder_llvm smolder_gloo)
  if(TARGET ${plugin})
    install(TARGETS ${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()

install(
  DIRECTORY $<TARGET_FILE_DIR:smolder>/
  DESTINATION ${CMAKE_INSTALL_LIBDIR}
  FILES_MATCHING
  PATTERN "smolder_programs_*.bin")

# The headers, ours and those that the op table generates; further arguments are install()'s.
function(smolder_install_headers destination)
  install(FILES ${CMAKE_SOURCE_DIR}/src/smolder.h DESTINATION ${destination}/smolder ${ARGN})
  foreach(layer ${SMOLDER_LAYERS})
    install(
      DIRECTORY ${CMAKE_SOURCE_DIR}/src/${layer}
      DESTINATION ${destination}/smolder ${ARGN}
      FILES_MATCHING
      PATTERN "*.h"
      PATTERN "jit/llvm" EXCLUDE
      PATTERN "distributed/gloo" EXCLUDE
      PATTERN "ops" EXCLUDE)
  endforeach()
  install(
    DIRECTORY ${CMAKE_BINARY_DIR}/generated/
    DESTINATION ${destination} ${ARGN}
    FILES_MATCHING
    PATTERN "*.h"
    PATTERN "*.inc")
endfunction()
smolder_install_headers(${CMAKE_INSTALL_INCLUDEDIR})
if(SKBUILD) # for extensions: smolder.utils.cpp_extension looks for them in the package
  smolder_install_headers(smolder/include COMPONENT python)
endif()

install(EXPORT smolderTargets NAMESPACE smolder:: DESTINATION ${package_dir})
configure_package_config_file(cmake/smolderConfig.cmake.in ${CMAKE_BINARY_DIR}/smolderConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/smolderConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/smolderConfig.cmake ${CMAKE_BINARY_DIR}/smolderConfigVersion.cmake
        DESTINATION ${package_dir})
