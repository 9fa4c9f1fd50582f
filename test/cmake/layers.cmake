# SPDX-License-Identifier: BSL-1.0
#
# One function for each layer, called by its name: add_LAYER_layer().
include_guard()

# Flags of every test; a warning is an error.
add_library(asyncsteps_test_flags INTERFACE)
target_compile_options(
  asyncsteps_test_flags INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast
                                  -Werror)
if(ASYNCSTEPS_TEST_SANITIZE)
  target_compile_options(asyncsteps_test_flags INTERFACE -fsanitize=${ASYNCSTEPS_TEST_SANITIZE} -fno-omit-frame-pointer
                                                         -fno-sanitize-recover=all)
  target_link_options(asyncsteps_test_flags INTERFACE -fsanitize=${ASYNCSTEPS_TEST_SANITIZE})
endif()
# -O2 as most users build; assertions of the library are on in every build type but Release.
foreach(flags IN ITEMS CMAKE_CXX_FLAGS_RELEASE)
  set(${flags} "-O2 -DNDEBUG")
endforeach()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/bin)

# Registers a test: a name without the tree's prefix, its layer, its time limit at scale 1, and a command.
function(register_test name layer timeout)
  add_test(NAME ${ASYNCSTEPS_TEST_PREFIX}${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  if(ASYNCSTEPS_TEST_SANITIZE)
    math(EXPR timeout "${timeout} * 5")
  endif()
  math(EXPR timeout "${timeout} * (${ASYNCSTEPS_TEST_SCALE} + 1) / 2")
  set_tests_properties(
    ${ASYNCSTEPS_TEST_PREFIX}${name}
    PROPERTIES TIMEOUT ${timeout} LABELS ${layer} ENVIRONMENT "ASYNCSTEPS_TEST_SCALE=${ASYNCSTEPS_TEST_SCALE}")
endfunction()

# An executable and its test for each file of a folder.
function(add_programs layer timeout)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${layer}/*.cpp)
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    set(name ${layer}.${name})
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE asyncsteps::steps asyncsteps_test_flags ${ARGN})
    target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    # Arguments of the program under test: a comment line "// args: ..." in it.
    file(STRINGS ${source} args REGEX "^// args:")
    string(REGEX REPLACE "^// args: *" "" args "${args}")
    separate_arguments(args UNIX_COMMAND "${args}")
    register_test(${name} ${layer} ${timeout} ${name} ${args})
  endforeach()
endfunction()

# doctest, with its main() compiled once.
function(add_doctest_programs layer timeout)
  if(NOT TARGET asyncsteps_test_main)
    find_package(doctest REQUIRED)
    add_library(asyncsteps_test_main OBJECT ${CMAKE_CURRENT_SOURCE_DIR}/support/doctest_main.cpp)
    target_link_libraries(asyncsteps_test_main PUBLIC doctest::doctest asyncsteps_test_flags)
  endif()
  add_programs(${layer} ${timeout} asyncsteps_test_main)
endfunction()

function(add_unit_layer)
  add_doctest_programs(unit 60)
endfunction()

# The layers whose programs use every core run one at a time.
function(run_alone layer)
  get_property(tests DIRECTORY PROPERTY TESTS)
  foreach(test IN LISTS tests)
    get_test_property(${test} LABELS label)
    if(label STREQUAL layer)
      set_tests_properties(${test} PROPERTIES RUN_SERIAL ON)
    endif()
  endforeach()
endfunction()

function(add_stress_layer)
  add_doctest_programs(stress 120)
  run_alone(stress)
endfunction()

function(add_linear_layer)
  add_doctest_programs(linear 120)
  run_alone(linear)
endfunction()

function(add_fault_layer)
  add_doctest_programs(fault 120)
endfunction()

function(add_example_layer)
  add_programs(example 120)
endfunction()

# Models: the shipped headers on Relacy's simulated memory, with the library's assertions on.
function(add_model_layer)
  find_path(RELACY_INCLUDE_DIR relacy/relacy.hpp)
  if(NOT RELACY_INCLUDE_DIR)
    message(STATUS "Models are skipped: relacy/relacy.hpp not found (Debian: relacy-dev)")
    register_test(model.skipped model 10 ${CMAKE_COMMAND} -E echo "models skipped: relacy/relacy.hpp not found")
    set_tests_properties(${ASYNCSTEPS_TEST_PREFIX}model.skipped PROPERTIES SKIP_REGULAR_EXPRESSION "models skipped")
    return()
  endif()
  set(CMAKE_CXX_FLAGS_RELEASE "-O2")
  add_programs(model 120)
endfunction()
function(add_headers_layer)
endfunction()
function(add_compile_fail_layer)
endfunction()
function(add_consumer_layer)
endfunction()
function(add_lint_layer)
endfunction()
