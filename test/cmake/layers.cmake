# SPDX-License-Identifier: BSL-1.0
#
# A function add_LAYER_layer() for each layer.
include_guard()
include(${CMAKE_CURRENT_LIST_DIR}/headers.cmake)

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

# Tests that are not built for Windows, and why.
set(asyncsteps_not_on_windows
    "unit.event_loop_end: ends copies of itself, made with fork()"
    "unit.steps_rules_unhandled: ends copies of itself, made with fork()"
    "unit.threadpool_end: ends copies of itself, made with fork()"
    "unit.threadpool_thread_exit: ends threads with pthread_exit() of glibc"
    "unit.waiting_stack: chooses the sizes of stacks by pthreads"
    "fault.blocking_pool: stands in for pthread_create(), which the C++ runtime has inside"
    "fault.threadpool: stands in for pthread_create(), which the C++ runtime has inside"
    "example.embedding: shows the loop inside poll()"
    "example.http_server: needs a script that asks it")

# Sets ASYNCSTEPS_TEST_HAS_ASIO. An old Boost.Asio does not compile with every standard library.
function(look_for_asio)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS -std=c++20)
  check_cxx_source_compiles("#include <utility>\n#include <boost/asio.hpp>\nint main() {}" ASYNCSTEPS_TEST_HAS_ASIO)
endfunction()

# Adds a program and its test for each file in a layer's folder; the other arguments are libraries. A script of the same
# name beside a file runs its program.
function(add_programs layer timeout)
  set(left_out "")
  if(WIN32)
    list(APPEND left_out ${asyncsteps_not_on_windows})
  elseif(CMAKE_CXX_FLAGS MATCHES "-stdlib=libc\\+\\+")
    list(APPEND left_out "unit.threadpool_thread_exit: libc++abi ends the program where a thread ends inside handlers")
  endif()
  if(layer MATCHES "^(unit|example)$")
    look_for_asio()
    if(NOT ASYNCSTEPS_TEST_HAS_ASIO)
      foreach(name IN ITEMS unit.interop_asio example.http_server)
        list(APPEND left_out "${name}: boost/asio.hpp is not there or does not compile (Debian: libboost-dev)")
      endforeach()
    endif()
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${layer}/*.cpp)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})
  set(grouped "")
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    set(name ${layer}.${name})
    if(ASYNCSTEPS_TEST_ONLY AND NOT name MATCHES "${ASYNCSTEPS_TEST_ONLY}")
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
    target_link_libraries(${name} PRIVATE asyncsteps::steps asyncsteps_test_flags ${ARGN})
    target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
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

# Sets `result` to whether a test may share a translation unit with others of its layer: it has no macros or conditions
# of its own, and nothing sets its target's flags.
function(can_be_grouped layer name source result)
  file(STRINGS ${source} directives REGEX "^ *# *(define|undef|if|ifdef|ifndef) ")
  if(layer MATCHES "^(unit|stress)$" AND NOT directives AND NOT name MATCHES "^unit\\.(dropin_|interop_asio$|steps_futoin$)")
    set(${result} ON PARENT_SCOPE)
  else()
    set(${result} OFF PARENT_SCOPE)
  endif()
endfunction()

# With ASYNCSTEPS_TEST_QUICK, -O1: it takes a fifth less time to compile.
function(optimise_less target)
  if(ASYNCSTEPS_TEST_QUICK AND CMAKE_BUILD_TYPE STREQUAL "Release")
    # With it g++ warns of variables that only an inlined function writes; -O2 is for the warnings.
    target_compile_options(${target} PRIVATE -O1 -Wno-maybe-uninitialized)
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
      file(STRINGS ${source} lines REGEX "^#include ")
      list(TRANSFORM lines REPLACE " *//.*" "")
      list(APPEND includes ${lines})
      cmake_path(GET source STEM name)
      string(APPEND bodies "namespace ${layer}_${name} {\n#include \"${source}\"\n}\n")
      if(ASYNCSTEPS_TEST_GROUPS)
        register_test(${layer}.${name} ${layer} ${timeout} ${group} --source-file=*/${name}.cpp)
        # A filter that selects nothing must not pass.
        set_tests_properties(${ASYNCSTEPS_TEST_PREFIX}${layer}.${name} PROPERTIES FAIL_REGULAR_EXPRESSION
                                                                                  "test cases: +0 ")
      endif()
    endforeach()
    list(REMOVE_DUPLICATES includes)
    list(JOIN includes "\n" includes)
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/groups/${group}.cpp)
    file(CONFIGURE OUTPUT ${unit} CONTENT "@includes@\n\n@bodies@" @ONLY)
    add_executable(${group} ${unit})
    target_link_libraries(${group} PRIVATE asyncsteps::steps asyncsteps_test_flags ${ARGN})
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

# Adds programs of doctest. They share an object with its main(), and a precompiled header.
function(add_doctest_programs layer timeout)
  if(NOT TARGET asyncsteps_test_main)
    add_library(asyncsteps_test_main OBJECT ${CMAKE_CURRENT_SOURCE_DIR}/support/doctest_main.cpp)
    target_link_libraries(asyncsteps_test_main PUBLIC asyncsteps_doctest asyncsteps_test_flags Threads::Threads)
    file(CONFIGURE OUTPUT common.cpp CONTENT "// compiled to get the precompiled header\n")
    add_library(asyncsteps_test_common OBJECT ${CMAKE_CURRENT_BINARY_DIR}/common.cpp)
    target_link_libraries(asyncsteps_test_common PRIVATE asyncsteps_doctest asyncsteps_test_flags asyncsteps::steps)
    target_precompile_headers(
      asyncsteps_test_common PRIVATE <doctest/doctest.h> <atomic> <chrono> <functional> <future> <memory> <mutex>
      <optional> <string> <thread> <vector>)
    optimise_less(asyncsteps_test_common)
  endif()
  add_programs(${layer} ${timeout} asyncsteps_test_main)
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  list(FILTER targets INCLUDE REGEX "^${layer}\\.")
  foreach(target IN LISTS targets)
    target_precompile_headers(${target} REUSE_FROM asyncsteps_test_common)
    optimise_less(${target})
  endforeach()
endfunction()

# Boost.Asio has fences; g++ warns that ThreadSanitizer cannot follow them.
function(allow_fences target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND TARGET ${target})
    target_compile_options(${target} PRIVATE -Wno-tsan)
  endif()
endfunction()

function(add_unit_layer)
  add_doctest_programs(unit 240)
  allow_fences(unit.interop_asio)
  # Lists of calls, each with its templates of std::async: they check types and results, not speed. As COFF, an object
  # that is not optimised has too many sections.
  foreach(target IN ITEMS unit.dropin_functions unit.dropin_functors unit.dropin_lambdas)
    if(TARGET ${target} AND NOT WIN32)
      target_compile_options(${target} PRIVATE -O0)
      set_target_properties(${target} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON) # made with optimisation
    endif()
  endforeach()
  find_library(CPPREST_LIBRARY cpprest)
  if(NOT TARGET unit.interop_pplx)
    return()
  endif()
  if(CPPREST_LIBRARY AND NOT CMAKE_CROSSCOMPILING AND NOT ASYNCSTEPS_TEST_SANITIZE) # no instrumented one
    target_link_libraries(unit.interop_pplx PRIVATE ${CPPREST_LIBRARY})
  else()
    target_compile_definitions(unit.interop_pplx PRIVATE ASYNCSTEPS_TEST_NO_PPLX)
    set_target_properties(unit.interop_pplx PROPERTIES DISABLE_PRECOMPILE_HEADERS ON) # made without the definition
  endif()
endfunction()

function(add_stress_layer)
  add_doctest_programs(stress 120)
endfunction()

function(add_linear_layer)
  add_doctest_programs(linear 120)
endfunction()

function(add_fault_layer)
  add_doctest_programs(fault 120)
endfunction()

function(add_example_layer)
  add_programs(example 120)
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  list(FILTER targets INCLUDE REGEX "^example\\.")
  foreach(target IN LISTS targets)
    optimise_less(${target})
  endforeach()
  allow_fences(example.http_server)
endfunction()

# Fuzz targets: run on the inputs of fuzz/corpus/NAME and random changes to them; or, with ASYNCSTEPS_TEST_FUZZ_SECONDS, on
# clang's libFuzzer for that time, which writes its findings to the build tree.
function(add_fuzz_layer)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/*.cpp)
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM stem)
    set(name fuzz.${stem})
    set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${stem})
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE asyncsteps::steps asyncsteps_test_flags)
    target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    if(ASYNCSTEPS_TEST_FUZZ_SECONDS)
      target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
      target_link_options(${name} PRIVATE -fsanitize=fuzzer)
      set(found ${CMAKE_CURRENT_BINARY_DIR}/fuzz/${stem})
      file(MAKE_DIRECTORY ${found})
      math(EXPR limit "${ASYNCSTEPS_TEST_FUZZ_SECONDS} * 2 + 120")
      register_test(
        ${name} fuzz ${limit} ${name} -max_total_time=${ASYNCSTEPS_TEST_FUZZ_SECONDS} -max_len=300 -timeout=30
        -print_final_stats=1 -verbosity=0 -artifact_prefix=${found}/failed. ${found} ${corpus})
    else()
      target_sources(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/support/fuzz_replay.cpp)
      register_test(${name} fuzz 60 ${name} ${corpus})
    endif()
  endforeach()
endfunction()

# The instructions of each operation against its budget; see budget/check.py. The table holds for -O2 without assertions.
function(add_budget_layer)
  find_path(VALGRIND_INCLUDE_DIR valgrind/callgrind.h)
  find_program(VALGRIND valgrind)
  if(NOT VALGRIND_INCLUDE_DIR OR NOT VALGRIND)
    skip_layer(budget "valgrind not found (Debian: valgrind)")
    return()
  endif()
  string(REGEX MATCH "^[0-9]+" version ${CMAKE_CXX_COMPILER_VERSION})
  set(compiler "${CMAKE_CXX_COMPILER_ID} ${version} ${CMAKE_SYSTEM_PROCESSOR} ${CMAKE_BUILD_TYPE}")
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/budget)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  set(check ${Python3_EXECUTABLE} ${folder}/check.py)
  set(update "")
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM stem)
    set(name budget.${stem})
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE asyncsteps::steps asyncsteps_test_flags)
    target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_include_directories(${name} SYSTEM PRIVATE ${VALGRIND_INCLUDE_DIR})
    register_test(${name} budget 60 ${check} ${folder}/${stem}.txt ${compiler} $<TARGET_FILE:${name}>)
    list(APPEND update COMMAND ${check} --update ${folder}/${stem}.txt ${compiler} $<TARGET_FILE:${name}>)
  endforeach()
  add_custom_target(budget.update ${update} VERBATIM)
endfunction()

# Models: the shipped headers on Relacy's simulated memory, with the library's assertions enabled.
function(add_model_layer)
  find_path(RELACY_INCLUDE_DIR relacy/relacy.hpp)
  if(NOT RELACY_INCLUDE_DIR)
    skip_layer(model "relacy/relacy.hpp not found (Debian: relacy-dev)")
    return()
  endif()
  # What all models share is compiled once.
  add_library(asyncsteps_model OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_SOURCE_DIR}/support/relacy_searches.cpp)
  target_link_libraries(asyncsteps_model PRIVATE asyncsteps::steps asyncsteps_test_flags)
  target_compile_definitions(asyncsteps_model INTERFACE MODEL_SEARCHES_ELSEWHERE)
  # Relacy replaces only the plain forms of new and delete; g++ 12 sees out-of-bounds writes in its one-thread waitset.
  target_compile_options(asyncsteps_model PUBLIC -UNDEBUG -fno-sized-deallocation -Wno-array-bounds)
  target_include_directories(asyncsteps_model SYSTEM PUBLIC ${RELACY_INCLUDE_DIR})
  target_include_directories(asyncsteps_model PUBLIC ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/model)
  add_programs(model 240 asyncsteps_model)
endfunction()

# Weakens each memory order of the headers in turn, which a model must notice; see model/mutate.py.
function(add_mutation_layer)
  register_test(mutation.orders mutation 600 ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/model/mutate.py
                --compiler ${CMAKE_CXX_COMPILER})
  set_tests_properties(${ASYNCSTEPS_TEST_PREFIX}mutation.orders PROPERTIES RUN_SERIAL ON)
endfunction()

# Misuse that the compiler must refuse with a readable message; see compile_fail/check.py.
function(add_compile_fail_layer)
  set(includes "")
  foreach(part IN ITEMS async steps)
    list(APPEND includes
         "-I$<JOIN:$<TARGET_PROPERTY:asyncsteps::${part},INTERFACE_INCLUDE_DIRECTORIES>,$<SEMICOLON>-I>")
  endforeach()
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS}")
  set(compiler ${CMAKE_CXX_COMPILER} ${flags} -std=c++20 -Wall -Wextra ${includes} -I${CMAKE_CURRENT_SOURCE_DIR})
  register_test(compile_fail.selftest compile_fail 60 ${Python3_EXECUTABLE}
                ${CMAKE_CURRENT_SOURCE_DIR}/compile_fail/selftest.py ${compiler})
  # A test makes a precompiled header for the others. Without one, half of the time goes to reading the library.
  set(headers ${CMAKE_CURRENT_BINARY_DIR}/compile_fail/headers.hpp)
  file(CONFIGURE OUTPUT ${headers} CONTENT "#include \"async/async.hpp\"\n#include \"steps/steps.hpp\"\n" @ONLY)
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    register_test(compile_fail.headers compile_fail 60 ${compiler} -x c++-header ${headers} -o ${headers}.gch)
    set_tests_properties(${ASYNCSTEPS_TEST_PREFIX}compile_fail.headers PROPERTIES FIXTURES_SETUP asyncsteps_precompiled)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/compile_fail/*.cpp)
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    set(check ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/compile_fail/check.py ${source} ${compiler})
    file(STRINGS ${source} macros REGEX "^ *# *define ")
    if(CMAKE_DISABLE_PRECOMPILE_HEADERS OR macros)
      register_test(compile_fail.${name} compile_fail 60 ${check})
    else()
      register_test(compile_fail.${name} compile_fail 60 ${check} -include ${headers})
      set_tests_properties(${ASYNCSTEPS_TEST_PREFIX}compile_fail.${name} PROPERTIES FIXTURES_REQUIRED
                                                                                    asyncsteps_precompiled)
    endif()
  endforeach()
endfunction()

# Projects that use the library, for each way to get it; see consumer/check.cmake.
function(add_consumer_layer)
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR PARENT_PATH root)
  set(version ${asyncsteps_VERSION})
  find_program(CONAN conan HINTS ${root}/.build/conan/bin)
  foreach(how IN ITEMS install package pkgconfig tests subdirectory fetch single conan vcpkg)
    if(how STREQUAL "conan" AND NOT CONAN)
      skip_layer(consumer "the recipe needs Conan 2 (pip install conan)")
      continue()
    endif()
    register_test(
      consumer.${how} consumer 300
      ${CMAKE_COMMAND} -DHOW=${how} -DSOURCE=${root} -DWORK=${CMAKE_CURRENT_BINARY_DIR}/consumer
      -DCXX=${CMAKE_CXX_COMPILER} -DVERSION=${version} -DCMAKE_CTEST_COMMAND=${CMAKE_CTEST_COMMAND}
      -DCONAN=${CONAN} -DPYTHON=${Python3_EXECUTABLE} -P ${CMAKE_CURRENT_SOURCE_DIR}/consumer/check.cmake)
    set_tests_properties(${ASYNCSTEPS_TEST_PREFIX}consumer.${how} PROPERTIES FIXTURES_REQUIRED asyncsteps_installed)
  endforeach()
  set_tests_properties(
    ${ASYNCSTEPS_TEST_PREFIX}consumer.install PROPERTIES FIXTURES_REQUIRED "" FIXTURES_SETUP asyncsteps_installed)
endfunction()

# The debugger's view of the library, in a program without optimisation and one with it; see gdb/check.py.
function(add_gdb_layer)
  find_program(GDB gdb)
  if(NOT GDB)
    skip_layer(gdb "gdb not found (Debian: gdb)")
    return()
  endif()
  foreach(how IN ITEMS debug optimised)
    add_executable(gdb.${how} ${CMAKE_CURRENT_SOURCE_DIR}/gdb/program.cpp)
    target_link_libraries(gdb.${how} PRIVATE asyncsteps::steps asyncsteps_test_flags)
    target_compile_options(gdb.${how} PRIVATE -g $<IF:$<STREQUAL:${how},debug>,-O0,-O2>)
    register_test(gdb.${how} gdb 120 ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/gdb/check.py ${GDB}
                  $<TARGET_FILE:gdb.${how}> $<$<STREQUAL:${how},optimised>:--optimised>)
  endforeach()
endfunction()

# The reference: no warning of Doxygen, no public name without a comment; see docs/docs.py.
function(add_docs_layer)
  find_program(DOXYGEN doxygen)
  if(NOT DOXYGEN)
    skip_layer(docs "Doxygen not found (Debian: doxygen)")
    return()
  endif()
  register_test(docs.selftest docs 60 ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/docs/selftest.py)
  register_test(docs.reference docs 120 ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/docs/docs.py
                ${CMAKE_CURRENT_BINARY_DIR}/docs)
endfunction()

# The house rules, and the tests of the tools that check.
function(add_lint_layer)
  register_test(lint.mutate lint 120 ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/model/selftest.py
                ${CMAKE_CXX_COMPILER})
  register_test(lint.budget lint 60 ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/budget/selftest.py)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    register_test(lint.coverage lint 60 ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/support/coverage_test.py
                  ${CMAKE_CXX_COMPILER})
  endif()
  register_test(lint.figures lint 60 ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/support/figures_test.py)
  register_test(lint.run lint 60 ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/support/run_test.py)
  register_test(lint.selftest lint 60 ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/lint/selftest.py)
  register_test(lint.rules lint 60 ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/lint/lint.py)
  find_program(CLANG_TIDY clang-tidy-19)
  if(CLANG_TIDY)
    add_tidy_test()
  else()
    skip_layer(lint.tidy "clang-tidy-19 not found (Debian: clang-tidy-19)")
  endif()
endfunction()

# Clang-tidy, with the checks of .clang-tidy, over a source that includes the public headers; not those for other
# libraries.
function(add_tidy_test)
  set(includes "")
  set(folders "")
  foreach(part IN ITEMS async steps)
    get_target_property(headers asyncsteps::${part} HEADER_SET)
    get_target_property(base asyncsteps::${part} HEADER_DIRS)
    list(FILTER headers EXCLUDE REGEX "/detail/|/interop/(asio|futoin|pplx)")
    list(TRANSFORM headers REPLACE "^(.+)$" "#include \"\\1\"")
    list(APPEND includes ${headers})
    list(APPEND folders -I${base})
  endforeach()
  list(JOIN includes "\n" includes)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/tidy/headers.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "@includes@\n" @ONLY)
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR PARENT_PATH root)
  register_test(lint.tidy lint 120 ${CLANG_TIDY} --quiet --config-file=${root}/.clang-tidy ${source} -- -std=c++20 ${folders})
endfunction()

# The scripts that write the tables of benchmark/; at larger scales also benchmark/run, which builds all of its programs.
function(add_benchmark_layer)
  register_test(benchmark.report benchmark 60 ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/benchmark/report_test.py)
  register_test(benchmark.timeline benchmark 60 ${Python3_EXECUTABLE}
                ${CMAKE_CURRENT_SOURCE_DIR}/benchmark/timeline_test.py)
  register_test(benchmark.turns benchmark 60 ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/benchmark/turns_test.py)
  if(ASYNCSTEPS_TEST_SCALE GREATER 1)
    cmake_path(GET CMAKE_CURRENT_SOURCE_DIR PARENT_PATH root)
    register_test(
      benchmark.run benchmark 300
      ${CMAKE_COMMAND} -DSOURCE=${root} -DWORK=${CMAKE_CURRENT_BINARY_DIR}/benchmark
      -P ${CMAKE_CURRENT_SOURCE_DIR}/benchmark/run.cmake)
    set_tests_properties(
      ${ASYNCSTEPS_TEST_PREFIX}benchmark.run PROPERTIES RUN_SERIAL ON SKIP_REGULAR_EXPRESSION "skipped: ")
  endif()
endfunction()
