# Compiler cache, precompiled headers, linker and sanitizers.

# Paths below the source folder are cached as relative, so that checkouts share what they compile. GCC writes
# different bytes each time it precompiles the same header; the cache therefore looks at a `.sum` file beside
# it (smolder_precompile writes it) instead.
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_PCH_EXTSUM=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
endif()

# Precompiles headers for a target: a cold build takes half the time. Only headers that change with the
# compiler or a package, never ours, so that the .sum is known when configuring. (tools/tidy reads sources
# without them, and so finds an include that a file forgot.)
function(smolder_precompile target)
  if(NOT SMOLDER_PRECOMPILE)
    return()
  endif()
  target_precompile_headers(${target} PRIVATE ${ARGN})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/cmake_pch.hxx.gch.sum
       CONTENT "${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}} ${GTest_VERSION} ${nanobind_VERSION} ${Python_VERSION} ${ARGN}")
endfunction()

# The headers that were precompiled for another target, whose options are the same.
function(smolder_precompile_as target other)
  if(SMOLDER_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${other})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE -fpch-preprocess)
    endif()
  endif()
endfunction()

# Compiles a target's sources in groups of a folder, each as one translation unit: what they include is read once, so that
# a clean build is faster, but a change compiles its whole group. MOST: how many sources a group has at most, 8 unless said.
# ALONE names sources, or folders of them, whose internal names are also those of neighbours. Sources with options of their
# own stay alone without being named.
function(smolder_unity target)
  if(NOT SMOLDER_UNITY)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 unity "" "MOST" "ALONE")
  if(NOT unity_MOST)
    set(unity_MOST 8)
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  list(TRANSFORM unity_ALONE PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set(folders)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE path)
    cmake_path(GET path PARENT_PATH folder)
    if(path IN_LIST unity_ALONE OR folder IN_LIST unity_ALONE)
      continue()
    endif()
    string(REPLACE ${CMAKE_BINARY_DIR}/ "" group ${folder}) # names that do not say where the checkout is
    string(REPLACE ${CMAKE_SOURCE_DIR}/ "" group ${group})
    string(MAKE_C_IDENTIFIER ${group} group)
    list(APPEND in_${group} ${source})
    list(APPEND folders ${group})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(group ${folders})
    list(LENGTH in_${group} count)
    math(EXPR groups "(${count} + ${unity_MOST} - 1) / ${unity_MOST}")
    set(place 0)
    foreach(source ${in_${group}})
      math(EXPR part "${place} * ${groups} / ${count}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group}_${part})
      math(EXPR place "${place} + 1")
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU") # warns of classes with internal names in what it takes for a header
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# lld links the LLVM plugin in a fraction of the time. g++ looks for a plain `ld.lld`, so a folder of ours
# offers the versioned one under that name.
find_program(LLD NAMES ld.lld-19 ld.lld)
if(LLD)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/linker)
  file(CREATE_LINK ${LLD} ${CMAKE_BINARY_DIR}/linker/ld.lld SYMBOLIC)
  add_link_options(-B${CMAKE_BINARY_DIR}/linker -fuse-ld=lld)
endif()

# The build type of sanitizers, Sanitize: optimised as far as it does not blur what is where, as most of their time goes to
# running tests. Reports name functions, not lines (-DCMAKE_CXX_FLAGS=-g1 gives those). CMake caches empty flags for a
# build type that it does not know; these come before the cache's.
if(SMOLDER_SANITIZE)
  set(CMAKE_CXX_FLAGS_SANITIZE "-Og -fno-omit-frame-pointer")
  add_compile_options(-fsanitize=${SMOLDER_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SMOLDER_SANITIZE})
  if(SMOLDER_SANITIZE MATCHES undefined)
    # A third of what there is to compile, for what the hardware and AddressSanitizer tell as well: addresses are looked at
    # where they are used.
    add_compile_options(-fno-sanitize=null,vptr,pointer-overflow,object-size)
  endif()
endif()
