# SPDX-License-Identifier: BSL-1.0
#
# A function add_LAYER_layer() for each layer.
include_guard()
include(${CMAKE_CURRENT_LIST_DIR}/headers.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/programs.cmake)

function(add_unit_layer)
  add_doctest_programs(unit 240)
  allow_fences(unit.interop_asio)
  link_to_nats()
  # Many calls, each with its templates of std::async: they check types and results, not speed. As COFF, an object that
  # is not optimised has too many sections.
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  list(FILTER targets INCLUDE REGEX "^unit\\.(dropin|fulfil)")
  foreach(target IN LISTS targets)
    if(NOT WIN32)
      target_compile_options(${target} PRIVATE -O0)
      set_target_properties(${target} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON) # made with optimisation
    endif()
  endforeach()
  if(TARGET unit.waiting_stack AND ASYNCSTEPS_TEST_QUICK) # computes much: always optimised
    set_target_properties(unit.waiting_stack PROPERTIES DISABLE_PRECOMPILE_HEADERS ON) # made without optimisation
  endif()
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

# Unit tests of what sleeps, wakes and is ordered, with the code for systems that are not known.
function(add_portable_layer)
  set(asyncsteps_portable_sources "")
  foreach(name IN ITEMS async/parker async/naps async/event_loop_run async/event_loop_time async/threadpool
                        async/queue_waiting async/bounded_queue_waiting async/select_waiting async/future_waits
                        steps/steps_pool)
    list(APPEND asyncsteps_portable_sources ${CMAKE_CURRENT_SOURCE_DIR}/unit/${name}.cpp)
  endforeach()
  add_doctest_programs(portable 240)
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  list(FILTER targets INCLUDE REGEX "^portable\\.")
  foreach(target IN LISTS targets)
    target_compile_definitions(${target} PRIVATE ASYNCSTEPS_PORTABLE)
    set_target_properties(${target} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON) # made without the definition
  endforeach()
endfunction()

function(add_stress_layer)
  add_doctest_programs(stress 120)
  link_to_nats()
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
  link_to_nats()
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

# A program and a shared library that use asyncsteps, with the usual visibility of symbols, with hidden ones, and where
# the library keeps all to itself; see module/program.cpp. For Windows only what holds there: modules share nothing.
function(add_module_layer)
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/module)
  set(hidden -fvisibility=hidden -fvisibility-inlines-hidden $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  foreach(how IN ITEMS default hidden private)
    set(options "")
    set(program ${how})
    if(how STREQUAL "hidden")
      set(options ${hidden})
    elseif(how STREQUAL "private")
      set(options ${hidden} -DASYNCSTEPS_SHARED=)
      set(program default)
    endif()
    # The test's name; the program's argument; whether the program exports its symbols; the library's link option.
    set(tests "separate_${how}|separate|OFF|")
    if(how STREQUAL "private" AND NOT WIN32)
      set(tests "separate_private|separate|ON|")
    elseif(NOT WIN32)
      list(APPEND tests "linked_${how}|linked|OFF|" "loaded_${how}|shared|ON|" "unloaded_${how}|unload|ON|"
           "pending_${how}|pending|ON|-Wl,-z,nodelete")
    elseif(NOT how STREQUAL "default")
      continue()
    endif()
    foreach(part IN ITEMS program library)
      if(part STREQUAL "program" AND NOT program STREQUAL how)
        continue()
      endif()
      add_library(asyncsteps_module_${part}_${how} OBJECT EXCLUDE_FROM_ALL ${folder}/${part}.cpp)
      target_link_libraries(asyncsteps_module_${part}_${how} PUBLIC asyncsteps::steps asyncsteps_test_flags)
      target_include_directories(asyncsteps_module_${part}_${how} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
      target_compile_options(asyncsteps_module_${part}_${how} PRIVATE ${options})
      set_target_properties(asyncsteps_module_${part}_${how} PROPERTIES POSITION_INDEPENDENT_CODE ON)
      optimise_less(asyncsteps_module_${part}_${how})
    endforeach()
    foreach(test IN LISTS tests)
      string(REPLACE "|" ";" test "${test}")
      list(GET test 0 name)
      list(GET test 1 mode)
      list(GET test 2 exports)
      list(GET test 3 option)
      set(name module.${name})
      if(ASYNCSTEPS_TEST_ONLY AND NOT name MATCHES "${ASYNCSTEPS_TEST_ONLY}")
        continue()
      endif()
      add_library(${name}.library SHARED EXCLUDE_FROM_ALL)
      target_link_libraries(${name}.library PRIVATE asyncsteps_module_library_${how})
      target_link_options(${name}.library PRIVATE ${option})
      add_executable(${name})
      target_link_libraries(${name} PRIVATE asyncsteps_module_program_${program} ${CMAKE_DL_LIBS})
      set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ${exports})
      add_dependencies(${name} ${name}.library)
      if(mode STREQUAL "linked")
        target_sources(${name} PRIVATE ${folder}/linked.cpp)
        target_link_libraries(${name} PRIVATE ${name}.library)
      endif()
      register_test(${name} module 120 ${name} ${mode} $<TARGET_FILE:${name}.library>)
    endforeach()
  endforeach()
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
    list(FILTER headers EXCLUDE REGEX "/detail/|/interop/(asio|futoin|nats|pplx)")
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
