# SPDX-License-Identifier: Apache-2.0
# tessera_test(NAME x SOURCES a_test.cpp … DEPS ops … [LABELS unit] [RANKS 1 2 4 6] [COST 30])
# Adds a GoogleTest binary. Without RANKS it is one ctest entry. With RANKS it has one entry under mpirun per number of ranks, such as
# `x.np4`, and uses the main() for several ranks in tests/support. The target LABEL_tests builds all tests of a label. COST is the
# approximate time of the test in seconds with sanitizers on an idle machine; ctest starts expensive tests first.
# The sources are compiled as one, except those with the property SKIP_UNITY_BUILD_INCLUSION. tessera_allow_busy_machine sets the time
# limit, which ends tests that hang.

# Allows mpirun to run as root and with more ranks than cores, on kernels that forbid single-copy transfers. Leaks are not reported,
# because Open MPI leaks memory.
set(TESSERA_MPI_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1)

# Sets the time limit of each test of a directory, after all its tests are defined: 30 minutes, or five times the COST if that is more.
# Tests that take more than six minutes with sanitizers on an idle machine therefore need a COST.
function(tessera_allow_busy_machine)
  get_property(tests DIRECTORY PROPERTY TESTS)
  foreach(test ${tests})
    get_test_property(${test} TIMEOUT timeout)
    get_test_property(${test} COST cost)
    if(NOT timeout OR timeout LESS 1800)
      set(timeout 1800)
    endif()
    if(cost)
      math(EXPR five_times "5 * ${cost}")
      if(timeout LESS five_times)
        set(timeout ${five_times})
      endif()
    endif()
    set_tests_properties(${test} PROPERTIES TIMEOUT ${timeout})
  endforeach()
endfunction()

# Defers the call of tessera_allow_busy_machine to the end of the directory.
function(tessera_defer_time_limits)
  get_property(is_deferred DIRECTORY PROPERTY TESSERA_TIME_LIMITS_DEFERRED)
  if(NOT is_deferred)
    set_property(DIRECTORY PROPERTY TESSERA_TIME_LIMITS_DEFERRED ON)
    cmake_language(DEFER CALL tessera_allow_busy_machine)
  endif()
endfunction()

function(tessera_test)
  tessera_defer_time_limits()
  cmake_parse_arguments(ARG "" "NAME;COST" "SOURCES;DEPS;LIBS;LABELS;RANKS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_compile_options(${ARG_NAME} PRIVATE ${TESSERA_WARNINGS} ${TESSERA_TEST_OPTIONS})
  foreach(dep ${ARG_DEPS})
    if(NOT TARGET tessera::${dep})
      message(FATAL_ERROR "${ARG_NAME}: there is no module ${dep}")
    endif()
    target_link_libraries(${ARG_NAME} PRIVATE tessera::${dep})
  endforeach()
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_LIBS} GTest::gtest)
  target_include_directories(${ARG_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  set_target_properties(${ARG_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  tessera_precompile(${ARG_NAME} tests GTest::gtest)
  tessera_unite(${ARG_NAME})
  foreach(label ${ARG_LABELS})
    if(NOT TARGET ${label}_tests)
      add_custom_target(${label}_tests)
    endif()
    add_dependencies(${label}_tests ${ARG_NAME})
  endforeach()
  if(NOT ARG_RANKS)
    target_link_libraries(${ARG_NAME} PRIVATE GTest::gtest_main)
    add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
    set_tests_properties(${ARG_NAME} PROPERTIES LABELS "${ARG_LABELS}")
    set(entries ${ARG_NAME})
  else()
    target_link_libraries(${ARG_NAME} PRIVATE tessera_mpi_main)
    foreach(ranks ${ARG_RANKS})
      tessera_add_mpi_run(${ARG_NAME}.np${ranks} ${ARG_NAME} ${ranks} LABELS ${ARG_LABELS})
      list(APPEND entries ${ARG_NAME}.np${ranks})
    endforeach()
  endif()
  if(ARG_COST)
    set_tests_properties(${entries} PROPERTIES COST ${ARG_COST})
  endif()
endfunction()

# tessera_long_entry(TEST) adds the entry TEST.long, which checks all cases of a test that usually checks a sample. Only
# `tools/test.sh --all` and `ctest -L long` run it.
function(tessera_long_entry name)
  add_test(NAME ${name}.long COMMAND ${name})
  set_tests_properties(${name}.long PROPERTIES LABELS long COST 1000 ENVIRONMENT TESSERA_LONG_TESTS=1)  # COST: runs first
endfunction()

# Adds a library that several tests share. It is compiled like a module, but not installed.
function(tessera_test_library name)
  add_library(${name} STATIC ${ARGN})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/tests)
  target_compile_options(${name} PRIVATE ${TESSERA_WARNINGS})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  tessera_precompile(${name} modules)
  tessera_unite(${name})
endfunction()

# tessera_add_mpi_run(TEST TARGET RANKS [LABELS ..] [ENVIRONMENT A=b ..]) adds a ctest entry that runs the target under mpirun.
function(tessera_add_mpi_run name target ranks)
  tessera_defer_time_limits()
  cmake_parse_arguments(ARG "" "" "LABELS;ENVIRONMENT" ${ARGN})
  add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} -n ${ranks} $<TARGET_FILE:${target}>)
  set_tests_properties(${name} PROPERTIES LABELS "mpi;np${ranks};${ARG_LABELS}"
                       PROCESSORS ${ranks} ENVIRONMENT "${TESSERA_MPI_ENVIRONMENT};${ARG_ENVIRONMENT}")
endfunction()

# tessera_script_test(NAME x COMMAND … [LABELS example] [RANKS n]) adds a command that must exit with 0. With RANKS the command
# starts n ranks, and ctest reserves as many cores.
function(tessera_script_test)
  tessera_defer_time_limits()
  cmake_parse_arguments(ARG "" "NAME;RANKS" "COMMAND;LABELS" ${ARGN})
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${ARG_NAME} PROPERTIES LABELS "${ARG_LABELS}"
                       ENVIRONMENT "${TESSERA_MPI_ENVIRONMENT}")
  if(ARG_RANKS)
    set_tests_properties(${ARG_NAME} PROPERTIES PROCESSORS ${ARG_RANKS})
  endif()
endfunction()
