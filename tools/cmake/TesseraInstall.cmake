# SPDX-License-Identifier: Apache-2.0
# Defines what `cmake --install` installs: headers, static libraries, tessera.pc, and the package of find_package(Tessera) with the
# components `core` (the compiler, without MPI) and `training` (everything else); and the component `programs`: the command `tessera`,
# the training programs, if the examples are built, and inputs for both. Include it after all modules and examples are defined.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(TESSERA_CORE_MODULES base tensor sharding ir ops autodiff passes schedule lowering partitioner)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tessera)

# Appends to the list `out`: `target` and all targets of this project that it links, without duplicates. Helper libraries are thus
# installed with their module.
function(tessera_link_closure target out)
  set(found ${${out}})
  get_target_property(real ${target} ALIASED_TARGET)
  if(real)
    set(target ${real})
  endif()
  get_target_property(imported ${target} IMPORTED)
  if(imported OR target IN_LIST found)
    return()
  endif()
  list(APPEND found ${target})
  foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
    get_target_property(links ${target} ${property})
    foreach(link ${links})
      string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" link "${link}")
      if(TARGET ${link})
        tessera_link_closure(${link} found)
      endif()
    endforeach()
  endforeach()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

get_property(modules GLOBAL PROPERTY TESSERA_MODULES)
set(core_targets)
set(all_targets)
foreach(module ${modules})
  if(module IN_LIST TESSERA_CORE_MODULES)
    tessera_link_closure(tessera_${module} core_targets)
  endif()
endforeach()
foreach(module ${modules})
  tessera_link_closure(tessera_${module} all_targets)
endforeach()
set(training_targets ${all_targets})
list(REMOVE_ITEM training_targets ${core_targets})

# tessera::core and tessera::training link all modules of a component; tessera::tessera links both components.
set(package_components)
set(archives)
foreach(component core training)
  if(NOT ${component}_targets)
    continue()
  endif()
  list(APPEND package_components ${component})
  add_library(tessera_all_${component} INTERFACE)
  add_library(tessera::${component} ALIAS tessera_all_${component})
  set_target_properties(tessera_all_${component} PROPERTIES EXPORT_NAME ${component})
  foreach(target ${${component}_targets})
    string(REGEX REPLACE "^tessera_" "" short ${target})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${short})
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      target_link_libraries(tessera_all_${component} INTERFACE ${target})
      list(PREPEND archives -l${target})
    endif()
  endforeach()
  install(TARGETS ${${component}_targets} tessera_all_${component} EXPORT Tessera_${component}
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT Tessera_${component} NAMESPACE tessera:: DESTINATION ${package_dir} COMPONENT ${component})
endforeach()
add_library(tessera_tessera INTERFACE)
add_library(tessera::tessera ALIAS tessera_tessera)
foreach(component ${package_components})
  target_link_libraries(tessera_tessera INTERFACE tessera_all_${component})
endforeach()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tessera ${PROJECT_BINARY_DIR}/include/tessera
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT core FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT core)

set(modules_dir ${PROJECT_SOURCE_DIR}/tools/cmake)
configure_package_config_file(${modules_dir}/TesseraConfig.cmake.in ${PROJECT_BINARY_DIR}/TesseraConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TesseraConfig.cmake ${PROJECT_BINARY_DIR}/TesseraConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT core)
if(EXISTS ${modules_dir}/FindDNNL.cmake)
  install(FILES ${modules_dir}/FindDNNL.cmake DESTINATION ${package_dir} COMPONENT core)
endif()

file(RELATIVE_PATH TESSERA_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REPLACE ";" " " TESSERA_ARCHIVES "${archives}")
set(TESSERA_PC_LIBS)
if(training_targets)
  set(TESSERA_PC_LIBS "-ldnnl")
endif()
configure_file(${modules_dir}/tessera.pc.in ${PROJECT_BINARY_DIR}/tessera.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tessera.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT core)

if(TARGET tessera_command)
  set(programs tessera_command)
  if(TARGET run_clm)
    list(APPEND programs run_clm run_mlm run_classification train_imagenet train_moe generate plan_gpt2)
  endif()
  # An installed program finds shared libraries where they were when it was linked.
  set_target_properties(${programs} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/configs ${PROJECT_SOURCE_DIR}/examples/hlo
          DESTINATION ${CMAKE_INSTALL_DATADIR}/tessera COMPONENT programs)
endif()
