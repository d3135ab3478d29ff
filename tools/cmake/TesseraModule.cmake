# SPDX-License-Identifier: Apache-2.0
# tessera_module(NAME SOURCES a.cpp … DEPS base tensor … [LIBS …] [PRIVATE_LIBS …])
# Adds the static library tessera_NAME with the alias tessera::NAME, which is installed with the package. Users of the module also
# get the include directories of LIBS, but only link PRIVATE_LIBS. With TESSERA_UNITY several sources are compiled as one,
# so names in anonymous namespaces are unique within a module.
function(tessera_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS;PRIVATE_LIBS" ${ARGN})
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
  # Users of the installed package do not need header-only libraries.
  list(TRANSFORM ARG_PRIVATE_LIBS REPLACE "^(Eigen3::Eigen)$" "$<BUILD_INTERFACE:\\1>")
  target_link_libraries(tessera_${name} PUBLIC ${ARG_LIBS} PRIVATE ${ARG_PRIVATE_LIBS})
  tessera_precompile(tessera_${name} modules)
  tessera_unite(tessera_${name})
  set_property(GLOBAL APPEND PROPERTY TESSERA_MODULES ${name})
endfunction()

# Compiles several sources of the target as one with TESSERA_UNITY.
function(tessera_unite target)
  if(TESSERA_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 24)
  endif()
endfunction()

# Lets the target use the precompiled header of `kind` (modules or tests) with TESSERA_PRECOMPILE. Each is compiled once.
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
  # A compiler rejects a header that was precompiled with other flags. Programs differ from libraries in -fPIE; for sources with
  # flags, see tessera_skip_precompiled.
  if(kind STREQUAL "tests")
    set_target_properties(${owner} ${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
  cmake_language(EVAL CODE "cmake_language(DEFER CALL tessera_skip_precompiled ${target})")
endfunction()

# Lets a program use the precompiled header of the modules, and compiles it with their flag -fPIC.
function(tessera_precompile_program target)
  if(TESSERA_PRECOMPILE)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
    tessera_precompile(${target} modules)
  endif()
endfunction()

# Compiles the sources of the target that have flags without the precompiled header.
function(tessera_skip_precompiled target)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(options)
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()

# Test sources are compiled with little optimization, because their code runs only once. The code that they test is optimized.
set(TESSERA_TEST_OPTIONS $<$<CONFIG:Release>:-Og>)
set(TESSERA_WARNINGS -Wall -Wextra -Wconversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # These warnings of g++ 12 on std::string and boost::container::small_vector are false positives (GCC bugs 105651, 105329). ASan
  # finds real errors of these kinds.
  list(APPEND TESSERA_WARNINGS -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
endif()

# tessera_fast_allocation(TARGET): programs that only partition allocate many small objects, for which mimalloc takes about a quarter less of
# the time than glibc. Sanitizers need their own allocator. Programs that train keep glibc's: their memory is measured.
function(tessera_fast_allocation target)
  if(TARGET mimalloc AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize" AND NOT TESSERA_FUZZ)
    target_link_options(${target} PRIVATE LINKER:--no-as-needed)
    target_link_libraries(${target} PRIVATE mimalloc)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tools/tessera/operator_new.cpp)
  endif()
endfunction()
