# SPDX-License-Identifier: BSL-1.0
#
# What layers consist of: tests and programs, alone or in groups, and what they link to.
include_guard()

# Registers a test: its name without the tree's prefix, its layer, its time limit in seconds at scale 1, and a command.
function(register_test name layer timeout)
  set(test ${ASYNCSTEPS_TEST_PREFIX}${name})
  if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
    set(ARGN ${CMAKE_COMMAND} -E echo "skipped: built, but nothing here runs it")
  endif()
  add_test(NAME ${test} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} COMMAND_EXPAND_LISTS)
  if(asyncsteps_slow)
    math(EXPR timeout "${timeout} * 5")
  endif()
  set(environment ASYNCSTEPS_TEST_SCALE=${ASYNCSTEPS_TEST_SCALE} ${asyncsteps_sanitizer_options})
  if(CMAKE_CROSSCOMPILING_EMULATOR)
    list(APPEND environment ASYNCSTEPS_TEST_EMULATED=1)
  endif()
  math(EXPR timeout "${timeout} * (${ASYNCSTEPS_TEST_SCALE} + 1) / 2")
  set_tests_properties(
    ${test}
    PROPERTIES TIMEOUT ${timeout}
               LABELS ${layer}
               ENVIRONMENT "${environment}"
               SKIP_REGULAR_EXPRESSION "^skipped: ")
  # They use every core; but one of these is mostly a single thread, and the other one mostly sleeps.
  if(layer MATCHES "^(stress|linear)$" AND NOT name MATCHES "^(linear\\.steps_reference|stress\\.steps_sharing)$")
    set_tests_properties(${test} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

# Shows a layer, or one of its programs, as skipped, with the reason.
function(skip_layer layer reason)
  message(STATUS "${layer} is skipped: ${reason}")
  string(REGEX REPLACE "\\..*" "" label ${layer})
  register_test(${layer}.skipped ${label} 60 ${CMAKE_COMMAND} -E echo "skipped: ${reason}")
endfunction()

# Sets `names` to the headers' names, as they are included, and `base` to the folder that they are in.
function(list_headers names base)
  set(found "")
  foreach(part IN ITEMS async steps)
    get_target_property(headers asyncsteps::${part} HEADER_SET)
    get_target_property(folder asyncsteps::${part} HEADER_DIRS)
    foreach(header IN LISTS headers)
      cmake_path(RELATIVE_PATH header BASE_DIRECTORY ${folder} OUTPUT_VARIABLE name)
      list(APPEND found ${name})
    endforeach()
  endforeach()
  set(${names} ${found} PARENT_SCOPE)
  set(${base} ${folder} PARENT_SCOPE)
endfunction()

# Tests that are not built for Windows, and why.
set(asyncsteps_not_on_windows
    "stress.fork: calls fork()"
    "stress.neighbours: makes processes with fork()"
    "stress.queue: takes more than ten minutes on Wine"
    "unit.event_loop_end: ends copies of itself, made with fork()"
    "unit.fork: calls fork()"
    "unit.heavy_fence: installs a filter of Linux"
    "unit.steps_rules_unhandled: ends copies of itself, made with fork()"
    "unit.threadpool_end: ends copies of itself, made with fork()"
    "unit.threadpool_thread_exit: ends threads with pthread_exit() of glibc"
    "unit.waiting_stack: chooses the sizes of stacks by pthreads"
    "fault.async: stands in for pthread_create(), which the C++ runtime has inside"
    "fault.blocking_pool: stands in for pthread_create(), which the C++ runtime has inside"
    "fault.stop_without_thread: stands in for pthread_create(), which the C++ runtime has inside"
    "fault.threadpool: stands in for pthread_create(), which the C++ runtime has inside"
    "example.embedding: shows the loop inside poll()"
    "example.http_server: needs a script that asks it")

# Tests that are not built for musl, linked statically, and why.
set(asyncsteps_not_on_musl
    "unit.blocking_section: stands in for pthread_create(), which a static program has inside"
    "unit.naps: stands in for syscall(), which a static program has inside"
    "unit.stand_ins: stands in for pthread_create(), which a static program has inside"
    "unit.threadpool_thread_exit: ends threads with pthread_exit() of glibc"
    "fault.async: stands in for pthread_create(), which a static program has inside"
    "fault.blocking_pool: stands in for pthread_create(), which a static program has inside"
    "fault.stop_without_thread: stands in for pthread_create(), which a static program has inside"
    "fault.threadpool: stands in for pthread_create(), which a static program has inside")

# Sets ASYNCSTEPS_TEST_HAS_ASIO. An old Boost.Asio does not compile with every standard library.
function(look_for_asio)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS -std=c++20)
  check_cxx_source_compiles("#include <utility>\n#include <boost/asio.hpp>\nint main() {}" ASYNCSTEPS_TEST_HAS_ASIO)
endfunction()

# Sets ASYNCSTEPS_TEST_NATS to the library of the NATS client, if its header and a server are there, too.
function(look_for_nats)
  if(CMAKE_CROSSCOMPILING)
    return()
  endif()
  find_path(NATS_INCLUDE_DIR nats/nats.h)
  find_library(NATS_LIBRARY nats)
  find_program(NATS_SERVER nats-server HINTS /usr/sbin /usr/local/sbin)
  if(NATS_INCLUDE_DIR AND NATS_LIBRARY AND NATS_SERVER)
    set(ASYNCSTEPS_TEST_NATS ${NATS_LIBRARY} PARENT_SCOPE)
  elseif("$ENV{CI}" STREQUAL "true")
    message(SEND_ERROR "with CI=true the tests on NATS are not skipped (Debian: libnats-dev nats-server)")
  endif()
endfunction()

# The programs on NATS link to its client.
function(link_to_nats)
  look_for_nats()
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  list(FILTER targets INCLUDE REGEX "^(unit\\.interop|stress|example)[._]nats")
  foreach(target IN LISTS targets)
    target_link_libraries(${target} PRIVATE ${ASYNCSTEPS_TEST_NATS})
  endforeach()
endfunction()

# A file in C whose name a program's source has, or begins with, is a part of it: C99, by the same compiler. CMake knows
# no compiler for C, which other machines would each have to have.
function(add_part_in_c target source)
  cmake_path(GET source PARENT_PATH folder)
  cmake_path(GET source STEM stem)
  set(part "")
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.c)
  foreach(file IN LISTS files)
    cmake_path(GET file STEM name)
    if(stem MATCHES "^${name}(_|$)")
      set(part ${file})
    endif()
  endforeach()
  if(NOT part)
    return()
  endif()
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR PARENT_PATH root)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/in_c/${target}${CMAKE_CXX_OUTPUT_EXTENSION})
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/in_c)
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${CMAKE_CXX_COMPILER} -x c -std=c99 -O1 -g -fPIC -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
            -I${root} -I${CMAKE_CURRENT_SOURCE_DIR} -MD -MF ${object}.d -c ${part} -o ${object}
    DEPENDS ${part}
    DEPFILE ${object}.d
    VERBATIM)
  target_sources(${target} PRIVATE ${object})
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
endfunction()

# Adds a program and its test for each file in a layer's folder; the other arguments are libraries. A script of the same
# name beside a file runs its program.
function(add_programs layer timeout)
  set(left_out "")
  if(WIN32)
    list(APPEND left_out ${asyncsteps_not_on_windows})
  elseif(CMAKE_CXX_FLAGS MATCHES "-stdlib=libc\\+\\+")
    list(APPEND left_out "unit.threadpool_thread_exit: libc++abi ends the program where a thread ends inside handlers")
  elseif(ASYNCSTEPS_TEST_PREFIX STREQUAL "musl.")
    list(APPEND left_out ${asyncsteps_not_on_musl})
  endif()
  if(layer MATCHES "^(unit|stress|example)$")
    look_for_asio()
    if(NOT ASYNCSTEPS_TEST_HAS_ASIO)
      foreach(name IN ITEMS unit.interop_asio unit.interop_asio_drop unit.interop_asio_memory stress.interop_asio
                            example.http_server)
        list(APPEND left_out "${name}: boost/asio.hpp is not there or does not compile (Debian: libboost-dev)")
      endforeach()
    endif()
  endif()
  look_for_nats()
  if(NOT ASYNCSTEPS_TEST_NATS)
    foreach(name IN ITEMS unit.interop_nats_calls unit.interop_nats_fork unit.interop_nats_jobs unit.interop_nats_memory
                          unit.interop_nats_reconnect stress.nats_jobs
                          example.nats_mails example.nats_words)
      list(APPEND left_out "${name}: no NATS client or server (Debian: libnats-dev nats-server)")
    endforeach()
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${layer}/*.cpp)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})
  set(grouped "")
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    set(name ${layer}.${name})
    if((ASYNCSTEPS_TEST_ONLY AND NOT name MATCHES "${ASYNCSTEPS_TEST_ONLY}")
       OR (ASYNCSTEPS_TEST_WITHOUT AND name MATCHES "${ASYNCSTEPS_TEST_WITHOUT}"))
      continue()
    endif()
    set(reason ${left_out})
    list(FILTER reason INCLUDE REGEX "^${name}: ")
    if(reason)
      list(GET reason 0 reason)
      string(REPLACE "${name}: " "" reason "${reason}")
      skip_layer(${name} "${reason}")
      continue()
    endif()
    add_executable(${name} ${source})
    choose_library(${name} ${source})
    target_link_libraries(${name} PRIVATE asyncsteps_test_flags ${ARGN})
    target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    add_part_in_c(${name} ${source})
    can_be_grouped(${layer} ${name} ${source} groupable)
    if(groupable)
      list(APPEND grouped ${source})
      if(ASYNCSTEPS_TEST_GROUPS)
        set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
        continue()
      endif()
    endif()
    # Arguments of the program under test: a comment line "// args: ..." in it; @source@ is the project's folder.
    file(STRINGS ${source} args REGEX "^// args:")
    string(REGEX REPLACE "^// args: *" "" args "${args}")
    separate_arguments(args UNIX_COMMAND "${args}")
    string(REPLACE "@source@" "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../.." args "${args}") # which may have spaces in it
    cmake_path(REPLACE_EXTENSION source LAST_ONLY py OUTPUT_VARIABLE script)
    if(EXISTS ${script})
      register_test(${name} ${layer} ${timeout} ${Python3_EXECUTABLE} ${script} ${CMAKE_CROSSCOMPILING_EMULATOR}
                    $<TARGET_FILE:${name}> ${args})
    else()
      register_test(${name} ${layer} ${timeout} ${name} ${args})
    endif()
  endforeach()
  add_groups(${layer} ${timeout} "${grouped}" ${ARGN})
endfunction()

# Links a program to asyncsteps::compiled where ASYNCSTEPS_TEST_COMPILED names it, unless it has settings of its own;
# otherwise to the headers alone. Sets its property ASYNCSTEPS_TEST_LIBRARY to that, or with macros of its own to nothing.
function(choose_library target source)
  file(STRINGS ${source} own REGEX "^ *# *(define|undef) ")
  set(library asyncsteps::steps)
  if(ASYNCSTEPS_TEST_COMPILED AND target MATCHES "${ASYNCSTEPS_TEST_COMPILED}" AND NOT own MATCHES "define +ASYNC")
    set(library asyncsteps::compiled)
  endif()
  target_link_libraries(${target} PRIVATE ${library})
  if(NOT own)
    set_target_properties(${target} PROPERTIES ASYNCSTEPS_TEST_LIBRARY ${library})
  endif()
endfunction()

# Sets `result` to whether a test may share a translation unit with others of its layer: it defines no macros, stands in
# for no function of the system, ends the conditions around its includes before its code, nothing sets its target's
# flags, and it does not depend on whether the program's blocks are in slabs (alloc_counter.hpp).
function(can_be_grouped layer name source result)
  file(STRINGS ${source} own REGEX "^ *# *(define|undef) |support/(futex_calls|thread_failure)\\.hpp")
  head_of(${source} head)
  string(REGEX MATCHALL "\n#if" begun "${head}")
  string(REGEX MATCHALL "\n#endif" ended "${head}")
  list(LENGTH begun begun)
  list(LENGTH ended ended)
  if(layer MATCHES "^(unit|stress)$" AND NOT own AND begun EQUAL ended AND NOT name MATCHES "^unit\\.(block_trim$|dropin_|steps_memory$|waiting_stack$|interop_asio|interop_binary|interop_nats_|interop_pplx$|steps_futoin$)|^stress\\.(interop_asio$|nats_)")
    set(${result} ON PARENT_SCOPE)
  else()
    set(${result} OFF PARENT_SCOPE)
  endif()
endfunction()

# Sets `head` to the lines of a source before its code, without comments.
function(head_of source head)
  file(READ ${source} text)
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REGEX MATCH "^((#[^\n]*)?[ ]*\n)+" text "${text}")
  set(${head} "${text}" PARENT_SCOPE)
endfunction()

# -O0, which takes a quarter of the time to compile, if ASYNCSTEPS_TEST_QUICK names the program, or the name that is given;
# -O1 where an emulator runs it.
function(optimise_less target)
  set(names ${target} ${ARGN})
  list(GET names -1 name)
  if(ASYNCSTEPS_TEST_QUICK AND name MATCHES "${ASYNCSTEPS_TEST_QUICK}" AND CMAKE_BUILD_TYPE STREQUAL "Release"
     AND NOT target STREQUAL "unit.waiting_stack")
    # With -O1 g++ warns of variables that only an inlined function writes; -O2 is for the warnings.
    target_compile_options(${target} PRIVATE $<IF:$<BOOL:${CMAKE_CROSSCOMPILING}>,-O1,-O0>
                                             $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  endif()
endfunction()

# Programs LAYER.group_N of eight tests each, compiled as one translation unit: most of a test's time to compile is the
# library's code, which such a program has once. Each test is in a namespace, and runs as a process of its own, which
# doctest restricts to its source file.
function(add_groups layer timeout sources)
  set(number 0)
  while(sources)
    math(EXPR number "${number} + 1")
    set(group ${layer}.group_${number})
    list(SUBLIST sources 0 8 members)
    list(REMOVE_ITEM sources ${members})
    set(includes "")
    set(bodies "")
    foreach(source IN LISTS members)
      head_of(${source} head)
      string(APPEND includes "${head}")
      cmake_path(GET source STEM name)
      string(APPEND bodies "namespace ${layer}_${name} {\n#include \"${source}\"\n}\n")
      if(ASYNCSTEPS_TEST_GROUPS)
        register_test(${layer}.${name} ${layer} ${timeout} ${group} --source-file=*/${name}.cpp)
        # A filter that selects nothing must not pass.
        set_tests_properties(${ASYNCSTEPS_TEST_PREFIX}${layer}.${name} PROPERTIES FAIL_REGULAR_EXPRESSION
                                                                                  "test cases: +0 ")
      endif()
    endforeach()
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/groups/${group}.cpp)
    file(CONFIGURE OUTPUT ${unit} CONTENT "@includes@\n\n@bodies@" @ONLY)
    add_executable(${group} ${unit})
    choose_library(${group} ${unit})
    target_link_libraries(${group} PRIVATE asyncsteps_test_flags ${ARGN})
    target_include_directories(${group} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    # g++ merges equal functions of two types, and then warns of an access by the wrong one; and it takes types in
    # unnamed namespaces for those of a header where the test is not the main file.
    target_compile_options(${group} PRIVATE "$<$<CXX_COMPILER_ID:GNU>:-fno-ipa-icf;-Wno-subobject-linkage>")
    # g++ warns falsely of bounds in so much inlined code, each version in other places. Clang's trees keep their
    # warnings, and so do the tests that compile headers and examples alone.
    target_compile_options(
      ${group}
      PRIVATE "$<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread>")
    if(NOT ASYNCSTEPS_TEST_GROUPS)
      set_target_properties(${group} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
  endwhile()
endfunction()

# Adds a precompiled header for programs of a layer that link to `library`, as an object library NAME: what most of them
# include, and the other arguments. doctest defines variables, which examples cannot link.
function(add_precompiled name layer library)
  if(TARGET ${name})
    return()
  endif()
  file(CONFIGURE OUTPUT common.cpp CONTENT "// compiled to get the precompiled header\n")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/common.cpp)
  target_link_libraries(${name} PRIVATE asyncsteps_doctest asyncsteps_test_flags ${library})
  if(NOT layer STREQUAL "example")
    list(PREPEND ARGN <doctest/doctest.h>)
  endif()
  target_precompile_headers(
    ${name} PRIVATE <atomic> <chrono> <functional> <future> <memory> <mutex> <optional> <string>
    <thread> <vector> ${ARGN})
  optimise_less(${name} ${layer}.)
endfunction()

# Lets the programs of a layer share precompiled headers with all that are optimised alike. With
# ASYNCSTEPS_TEST_PRECOMPILED, one has the library in it, for the programs without macros of their own.
function(use_precompiled layer)
  set(alike asyncsteps_test_optimised)
  if(ASYNCSTEPS_TEST_QUICK AND "${layer}." MATCHES "${ASYNCSTEPS_TEST_QUICK}")
    set(alike asyncsteps_test_quick)
  endif()
  if(layer STREQUAL "example")
    string(APPEND alike _example)
  endif()
  set(library asyncsteps::steps)
  if(ASYNCSTEPS_TEST_COMPILED)
    set(library asyncsteps::compiled)
  endif()
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR PARENT_PATH root)
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  list(FILTER targets INCLUDE REGEX "^${layer}\\.")
  foreach(target IN LISTS targets)
    get_target_property(its_library ${target} ASYNCSTEPS_TEST_LIBRARY)
    if(ASYNCSTEPS_TEST_PRECOMPILED AND its_library STREQUAL library)
      add_precompiled(${alike}_library ${layer} ${library} ${root}/async/async.hpp ${root}/steps/steps.hpp)
      target_precompile_headers(${target} REUSE_FROM ${alike}_library)
    else()
      add_precompiled(${alike} ${layer} asyncsteps::steps)
      target_precompile_headers(${target} REUSE_FROM ${alike})
    endif()
    optimise_less(${target})
  endforeach()
endfunction()

# Adds programs of doctest. They share an object with its main().
function(add_doctest_programs layer timeout)
  if(NOT TARGET asyncsteps_test_main)
    add_library(asyncsteps_test_main OBJECT ${CMAKE_CURRENT_SOURCE_DIR}/support/doctest_main.cpp)
    target_link_libraries(asyncsteps_test_main PUBLIC asyncsteps_doctest asyncsteps_test_flags Threads::Threads)
  endif()
  add_programs(${layer} ${timeout} asyncsteps_test_main)
  use_precompiled(${layer})
endfunction()

# Boost.Asio has fences; g++ warns that ThreadSanitizer cannot follow them.
function(allow_fences target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND TARGET ${target})
    target_compile_options(${target} PRIVATE -Wno-tsan)
  endif()
endfunction()
