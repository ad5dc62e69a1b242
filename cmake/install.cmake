# `cmake --install`: headers, libraries and the CMake package, so that another project says
# find_package(smolder) and links smolder::smolder.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/smolder)

install(TARGETS smolder smolder_headers EXPORT smolderTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET smolder_llvm)
  install(TARGETS smolder_llvm LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

foreach(layer ${SMOLDER_LAYERS})
  install(
    DIRECTORY ${CMAKE_SOURCE_DIR}/src/${layer}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/smolder
    FILES_MATCHING
    PATTERN "*.h"
    PATTERN "jit/llvm" EXCLUDE
    PATTERN "ops" EXCLUDE)
endforeach()
install(
  DIRECTORY ${CMAKE_BINARY_DIR}/generated/
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING
  PATTERN "*.h"
  PATTERN "*.inc")

install(EXPORT smolderTargets NAMESPACE smolder:: DESTINATION ${package_dir})
configure_package_config_file(cmake/smolderConfig.cmake.in ${CMAKE_BINARY_DIR}/smolderConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/smolderConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/smolderConfig.cmake ${CMAKE_BINARY_DIR}/smolderConfigVersion.cmake
        DESTINATION ${package_dir})
