# SPDX-License-Identifier: Apache-2.0
# tessera_module(NAME SOURCES a.cpp … DEPS base tensor … [LIBS …] [PRIVATE_LIBS …]): a static library tessera_NAME, alias
# tessera::NAME, installed with the package. LIBS reach the users of the module, PRIVATE_LIBS only the linker.
function(tessera_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS;PRIVATE_LIBS" ${ARGN})
  tessera_present_sources(${name} ARG_SOURCES)
  if(NOT ARG_SOURCES)
    return()
  endif()
  add_library(tessera_${name} STATIC ${ARG_SOURCES})
  add_library(tessera::${name} ALIAS tessera_${name})
  target_compile_features(tessera_${name} PUBLIC cxx_std_20)
  target_include_directories(tessera_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>)
  target_compile_options(tessera_${name} PRIVATE ${TESSERA_WARNINGS})
  foreach(dep ${ARG_DEPS})
    if(TARGET tessera::${dep})
      target_link_libraries(tessera_${name} PUBLIC tessera::${dep})
    else()
      message(NOTICE "${name}: there is no module ${dep} below it")
    endif()
  endforeach()
  # Header-only libraries leave no trace in an archive: users of the installed package need not have them.
  list(TRANSFORM ARG_PRIVATE_LIBS REPLACE "^(Eigen3::Eigen|nlohmann_json::nlohmann_json)$" "$<BUILD_INTERFACE:\\1>")
  target_link_libraries(tessera_${name} PUBLIC ${ARG_LIBS} PRIVATE ${ARG_PRIVATE_LIBS})
  tessera_precompile(tessera_${name})
  set_property(GLOBAL APPEND PROPERTY TESSERA_MODULES ${name})
endfunction()

# The listed sources that exist; the others are warned about, so that a half-written module does not stop everyone else.
function(tessera_present_sources owner list)
  set(present)
  foreach(source ${${list}})
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${source} OR IS_ABSOLUTE ${source} OR source MATCHES "^\\$<")
      list(APPEND present ${source})
    else()
      message(NOTICE "${owner}: ${CMAKE_CURRENT_SOURCE_DIR}/${source} is listed but missing")
    endif()
  endforeach()
  set(${list} ${present} PARENT_SCOPE)
endfunction()

# With TESSERA_PRECOMPILE the target reads one precompiled header of the standard headers that nearly every file includes.
function(tessera_precompile target)
  if(NOT TESSERA_PRECOMPILE)
    return()
  endif()
  if(NOT TARGET tessera_precompiled)
    file(WRITE ${PROJECT_BINARY_DIR}/precompiled.cpp "")
    add_library(tessera_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
    target_compile_features(tessera_precompiled PUBLIC cxx_std_20)
    target_compile_options(tessera_precompiled PRIVATE ${TESSERA_WARNINGS})
    target_link_libraries(tessera_precompiled PRIVATE fmt::fmt)
    target_precompile_headers(tessera_precompiled PRIVATE <algorithm> <cmath> <cstdint> <functional> <map> <memory>
                              <numeric> <optional> <set> <span> <string> <string_view> <unordered_map> <utility>
                              <variant> <vector> <fmt/core.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM tessera_precompiled)
endfunction()

# -Wrestrict: false alarms of g++ 12 on std::string (GCC bug 105651).
set(TESSERA_WARNINGS -Wall -Wextra -Wconversion -Wno-restrict)
