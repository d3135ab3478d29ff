# SPDX-License-Identifier: Apache-2.0
# tessera_module(NAME SOURCES a.cpp … DEPS base tensor … [PRIVATE_LIBS …]): a static library tessera_NAME, alias tessera::NAME.
function(tessera_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS;PRIVATE_LIBS" ${ARGN})
  add_library(tessera_${name} STATIC ${ARG_SOURCES})
  add_library(tessera::${name} ALIAS tessera_${name})
  target_compile_features(tessera_${name} PUBLIC cxx_std_20)
  target_include_directories(tessera_${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
                                                    $<INSTALL_INTERFACE:include>)
  target_compile_options(tessera_${name} PRIVATE ${TESSERA_WARNINGS})
  foreach(dep ${ARG_DEPS})
    target_link_libraries(tessera_${name} PUBLIC tessera::${dep})
  endforeach()
  target_link_libraries(tessera_${name} PUBLIC ${ARG_LIBS} PRIVATE ${ARG_PRIVATE_LIBS})
endfunction()

# -Wrestrict: false alarms of g++ 12 on std::string (GCC bug 105651).
set(TESSERA_WARNINGS -Wall -Wextra -Wconversion -Wno-restrict)
