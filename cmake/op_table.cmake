# The op table: tools/opgen turns the rows into C++, and leaves files alone that would not change.
# Sets op_sources, what the library compiles of them.
find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
set(op_dir ${CMAKE_SOURCE_DIR}/src/ir/ops)
set(op_primitives ${CMAKE_SOURCE_DIR}/src/ir/scalar/primitives.def)
set(op_autocast ${CMAKE_SOURCE_DIR}/src/ir/autocast.toml)
set(op_examples ${CMAKE_SOURCE_DIR}/src/ir/op_examples.json)
set(generated ${CMAKE_BINARY_DIR}/generated/smolder)
file(GLOB op_rows CONFIGURE_DEPENDS ${op_dir}/*.toml)
file(GLOB opgen_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/opgen/*.py ${CMAKE_SOURCE_DIR}/tools/opgen/*.pyi
     ${CMAKE_SOURCE_DIR}/bindings/python/smolder/_*.py)
set(op_headers ${generated}/ir/op_enum.h ${generated}/ir/value_ops.h ${generated}/lazy/ops.h
               ${generated}/lazy/tensor_methods.inc ${generated}/lazy/batch_rule_names.h ${generated}/ops.json
               ${generated}/python/_core.pyi
               ${generated}/python/__init__.pyi)
set(op_sources ${generated}/ir/op_table.cpp)
set(op_api_sources ${generated}/autograd/formulas.cpp ${generated}/lazy/autocast_rules.cpp
                   ${generated}/lazy/batch_table.cpp)
set(op_python_sources ${generated}/python/bind_ops.cpp)
foreach(rows ${op_rows})
  cmake_path(GET rows STEM stem)
  list(APPEND op_sources ${generated}/ir/ops_${stem}.cpp)
  list(APPEND op_python_sources ${generated}/python/bind_${stem}.cpp)
  list(APPEND op_api_sources ${generated}/lazy/ops_${stem}.cpp ${generated}/autograd/formulas_${stem}.cpp)
endforeach()
add_custom_command(
  OUTPUT ${op_headers} ${op_sources} ${op_api_sources} ${op_python_sources}
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/opgen/main.py --rows ${op_dir} --primitives ${op_primitives}
          --out ${CMAKE_BINARY_DIR}/generated
  DEPENDS ${op_rows} ${op_autocast} ${op_examples} ${opgen_sources} ${op_primitives}
  COMMENT "Generating the op table"
  VERBATIM)
add_custom_target(smolder_ops DEPENDS ${op_headers} ${op_sources} ${op_api_sources} ${op_python_sources})
set(op_python_sources
    ${op_python_sources}
    PARENT_SCOPE)
if(NOT autograd IN_LIST SMOLDER_LAYERS)
  list(FILTER op_api_sources EXCLUDE REGEX "/autograd/")
endif()
list(APPEND op_sources ${op_api_sources})
