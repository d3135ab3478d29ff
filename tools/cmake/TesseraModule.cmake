# SPDX-License-Identifier: Apache-2.0
# tessera_module(NAME SOURCES a.cpp … DEPS base tensor … [LIBS …] [PRIVATE_LIBS …] [SEPARATE]): a static library tessera_NAME,
# alias tessera::NAME, installed with the package. LIBS reach the users of the module, PRIVATE_LIBS only the linker. With
# TESSERA_UNITY several sources are compiled as one, unless the module is SEPARATE, where files have names in common.
function(tessera_module name)
  cmake_parse_arguments(ARG "SEPARATE" "" "SOURCES;DEPS;LIBS;PRIVATE_LIBS" ${ARGN})
  add_library(tessera_${name} STATIC ${ARG_SOURCES})
  add_library(tessera::${name} ALIAS tessera_${name})
  target_compile_features(tessera_${name} PUBLIC cxx_std_20)
  target_include_directories(tessera_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>)
  target_include_directories(tessera_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_options(tessera_${name} PRIVATE ${TESSERA_WARNINGS})
  foreach(dep ${ARG_DEPS})
    if(NOT TARGET tessera::${dep})
      message(FATAL_ERROR "${name}: there is no module ${dep} below it")
    endif()
    target_link_libraries(tessera_${name} PUBLIC tessera::${dep})
  endforeach()
  # Header-only libraries leave no trace in an archive: users of the installed package need not have them.
  list(TRANSFORM ARG_PRIVATE_LIBS REPLACE "^(Eigen3::Eigen)$" "$<BUILD_INTERFACE:\\1>")
  target_link_libraries(tessera_${name} PUBLIC ${ARG_LIBS} PRIVATE ${ARG_PRIVATE_LIBS})
  tessera_precompile(tessera_${name} modules)
  if(NOT ARG_SEPARATE)
    tessera_unite(tessera_${name})
  endif()
  set_property(GLOBAL APPEND PROPERTY TESSERA_MODULES ${name})
endfunction()

# With TESSERA_UNITY several sources of the target are compiled as one.
function(tessera_unite target)
  if(TESSERA_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()

# With TESSERA_PRECOMPILE the target reads the precompiled header called `kind`: one for modules, one for tests, made once each.
function(tessera_precompile target kind)
  if(NOT TESSERA_PRECOMPILE)
    return()
  endif()
  set(owner tessera_precompiled_${kind})
  if(NOT TARGET ${owner})
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${owner}.cpp CONTENT "// Only a place for the precompiled header.\n")
    add_library(${owner} OBJECT ${PROJECT_BINARY_DIR}/${owner}.cpp)
    target_compile_features(${owner} PUBLIC cxx_std_20)
    target_compile_options(${owner} PRIVATE ${TESSERA_WARNINGS})
    target_link_libraries(${owner} PRIVATE fmt::fmt Threads::Threads ${ARGN})
    set(headers <algorithm> <cmath> <cstdint> <functional> <map> <memory> <numeric> <optional> <set> <span> <string>
                <string_view> <unordered_map> <utility> <variant> <vector> <fmt/core.h>)
    if(kind STREQUAL "tests")
      list(APPEND headers <gtest/gtest.h>)
      target_compile_options(${owner} PRIVATE ${TESSERA_TEST_OPTIONS})
    endif()
    target_precompile_headers(${owner} PRIVATE ${headers})
  endif()
  # A compiler refuses a header that was precompiled with other flags: programs differ in -fPIE, some sources in their own.
  if(kind STREQUAL "tests")
    set_target_properties(${owner} ${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
  cmake_language(EVAL CODE "cmake_language(DEFER CALL tessera_skip_precompiled ${target})")
endfunction()

function(tessera_skip_precompiled target)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(options)
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()

# The sources of tests run once: what they test is optimised, they themselves are compiled quickly.
set(TESSERA_TEST_OPTIONS $<$<CONFIG:Release>:-Og>)
set(TESSERA_WARNINGS -Wall -Wextra -Wconversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # False alarms of g++ 12 on std::string (GCC bugs 105651, 105329); ASan looks for the real ones.
  list(APPEND TESSERA_WARNINGS -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow)
endif()
