# SPDX-License-Identifier: BSL-1.0
#
# Uses the library as its users do. A script: cmake -D...=... -P check.cmake, with
#   HOW      install, package, pkgconfig, subdirectory or tests
#   SOURCE   the source tree        WORK  a folder to work in
#   CXX      the compiler           VERSION  of the library
# The ways but subdirectory need what "install" left in WORK; it is moved, since an installed tree may be.
set(prefix ${WORK}/moved)
set(configure ${CMAKE_COMMAND} -G Ninja -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=Release)

function(execute)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

if(HOW STREQUAL "install")
  file(REMOVE_RECURSE ${WORK})
  execute(${configure} -S ${SOURCE} -B ${WORK}/install -DASYNCSTEPS_TESTS=OFF -DASYNCSTEPS_BENCHMARKS=OFF
          -DCMAKE_INSTALL_PREFIX=${WORK}/prefix)
  execute(${CMAKE_COMMAND} --install ${WORK}/install)
  file(RENAME ${WORK}/prefix ${prefix})
  foreach(part IN ITEMS async steps)
    file(GLOB_RECURSE wanted RELATIVE ${SOURCE} ${SOURCE}/${part}/*.hpp)
    file(GLOB_RECURSE got RELATIVE ${prefix}/include ${prefix}/include/${part}/*)
    if(NOT wanted STREQUAL got)
      message(FATAL_ERROR "installed headers differ from those of the source tree:\n${wanted}\n${got}")
    endif()
  endforeach()
  file(GLOB_RECURSE rest LIST_DIRECTORIES false RELATIVE ${prefix} ${prefix}/*)
  list(FILTER rest EXCLUDE REGEX "^include/(async|steps)/|^share/(cmake/asyncsteps|pkgconfig|licenses/asyncsteps)/")
  if(rest)
    message(FATAL_ERROR "installed beyond what belongs there: ${rest}")
  endif()
elseif(HOW STREQUAL "pkgconfig")
  set(ENV{PKG_CONFIG_PATH} ${prefix}/share/pkgconfig)
  execute(pkg-config --exact-version=${VERSION} asyncsteps)
  execute(pkg-config --cflags --libs asyncsteps)
  separate_arguments(flags UNIX_COMMAND "${output}")
  set(folder ${SOURCE}/test/consumer)
  execute(${CXX} -std=c++20 -Wall -Werror ${folder}/first.cpp ${folder}/second.cpp ${flags} -o ${WORK}/with_pkgconfig)
  execute(${WORK}/with_pkgconfig)
elseif(HOW STREQUAL "tests")
  # The tests are a project of their own, for those who package the library.
  execute(${configure} -S ${SOURCE}/test -B ${WORK}/tests -DCMAKE_PREFIX_PATH=${prefix}
          -DASYNCSTEPS_TEST_LAYERS=unit)
  execute(${CMAKE_COMMAND} --build ${WORK}/tests --target unit.config)
  execute(${CMAKE_CTEST_COMMAND} --test-dir ${WORK}/tests -R "^unit.config$" --no-tests=error)
else()
  execute(${configure} -S ${SOURCE}/test/consumer -B ${WORK}/${HOW} -DCMAKE_PREFIX_PATH=${prefix} -DHOW=${HOW}
          -DSOURCE=${SOURCE} -DVERSION=${VERSION})
  execute(${CMAKE_COMMAND} --build ${WORK}/${HOW})
  execute(${WORK}/${HOW}/consumer)
  execute(${WORK}/${HOW}/consumer_without_rtti)
endif()
