# SPDX-License-Identifier: BSL-1.0
#
# Uses the library as its users do. A script: cmake -D...=... -P check.cmake, with
#   HOW      install, package, pkgconfig, tests, subdirectory, fetch, single, compiled, module, conan or vcpkg
#   SOURCE   the source tree        WORK  a folder to work in
#   CXX      the compiler           VERSION  of the library
#   CONAN    the command of Conan, for HOW=conan        PYTHON  that of Python, for HOW=single
#   CMAKE_FOR_MODULES, CLANG  a CMake that knows modules and a compiler that has them, for HOW=module
# "install" comes first and starts from an empty folder; what it installs is moved, since an installed tree may be.
set(prefix ${WORK}/moved)
set(configure ${CMAKE_COMMAND} -G Ninja -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=Release)
if(NOT HOW MATCHES "^(package|subdirectory)$")
  list(APPEND configure -DCMAKE_CXX_FLAGS_RELEASE=-DNDEBUG) # half the time; these two see the warnings of -O3
endif()

function(execute)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# What a test/run tells of this; equal things are added up.
function(count number things)
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo "count: ${number} ${things}")
endfunction()

# Runs a program of the user's.
function(run program)
  execute(${program})
  count(1 "programs that use it")
endfunction()

# Builds and runs the project of this folder in a new folder, with what it is to be told.
function(consume from)
  file(REMOVE_RECURSE ${WORK}/${HOW})
  execute(${configure} -S ${SOURCE}/test/consumer -B ${WORK}/${HOW} -DHOW=${HOW} -DSOURCE=${from} -DVERSION=${VERSION}
          ${ARGN})
  execute(${CMAKE_COMMAND} --build ${WORK}/${HOW})
  foreach(program IN ITEMS consumer consumer_without_rtti consumer_mixed)
    run(${WORK}/${HOW}/${program})
  endforeach()
endfunction()

if(HOW STREQUAL "install")
  file(REMOVE_RECURSE ${WORK})
  # A full path for the headers is what some distributions give.
  execute(${configure} -S ${SOURCE} -B ${WORK}/install -DASYNCSTEPS_TESTS=OFF -DASYNCSTEPS_BENCHMARKS=OFF
          -DCMAKE_INSTALL_PREFIX=${WORK}/prefix -DCMAKE_INSTALL_INCLUDEDIR=${WORK}/prefix/include)
  execute(${CMAKE_COMMAND} --install ${WORK}/install)
  file(RENAME ${WORK}/prefix ${prefix})
  foreach(part IN ITEMS async steps)
    file(GLOB_RECURSE wanted RELATIVE ${SOURCE} ${SOURCE}/${part}/*.hpp ${SOURCE}/${part}/*.h ${SOURCE}/${part}/*.cppm)
    file(GLOB_RECURSE got RELATIVE ${prefix}/include ${prefix}/include/${part}/*)
    if(NOT wanted STREQUAL got)
      message(FATAL_ERROR "installed headers differ from those of the source tree:\n${wanted}\n${got}")
    endif()
    list(LENGTH got length)
    count(${length} "headers installed")
  endforeach()
  # CMake before 3.23 knows no file sets, and looks for headers where this says.
  file(STRINGS ${prefix}/share/cmake/asyncsteps/asyncsteps-targets.cmake lines REGEX "INTERFACE_INCLUDE_DIRECTORIES .*/include\"")
  list(LENGTH lines length)
  if(NOT length EQUAL 2)
    message(FATAL_ERROR "the package does not say where headers are to CMake before 3.23: ${lines}")
  endif()
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
  run(${WORK}/with_pkgconfig)
elseif(HOW STREQUAL "tests")
  # The tests are a project of their own, for those who package the library; here in a folder with spaces in its name.
  set(tests "${WORK}/a folder of tests")
  file(REMOVE_RECURSE ${tests})
  file(MAKE_DIRECTORY ${tests})
  file(CREATE_LINK ${SOURCE} ${tests}/source SYMBOLIC)
  execute(${configure} -S ${tests}/source/test -B ${tests}/build -DCMAKE_PREFIX_PATH=${prefix}
          "-DASYNCSTEPS_TEST_LAYERS=unit\\;example" "-DASYNCSTEPS_TEST_ONLY=^unit.config$|^example.pipeline$")
  execute(${CMAKE_COMMAND} --build ${tests}/build)
  execute(${CMAKE_CTEST_COMMAND} --test-dir ${tests}/build --no-tests=error)
elseif(HOW STREQUAL "fetch")
  # A repository of what the source tree holds, committed or not, with a tag as that of a release.
  set(origin ${WORK}/origin)
  file(REMOVE_RECURSE ${origin})
  file(COPY ${SOURCE}/async ${SOURCE}/steps ${SOURCE}/test ${SOURCE}/CMakeLists.txt DESTINATION ${origin})
  set(git git -C ${origin} -c user.name=test -c user.email=test@localhost)
  execute(${git} init --quiet)
  execute(${git} add --all)
  execute(${git} commit --quiet --message release)
  execute(${git} tag v${VERSION})
  consume(${origin})
elseif(HOW STREQUAL "single")
  # The single header alone, where no other is found: warnings are errors, and it may be in two translation units.
  set(folder ${WORK}/single)
  file(REMOVE_RECURSE ${folder})
  file(COPY ${SOURCE}/test/consumer/single/ DESTINATION ${folder})
  execute(${PYTHON} ${SOURCE}/test/consumer/amalgamate.py ${folder}/asyncsteps.hpp)
  execute(${CXX} -std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Werror
          -pthread ${folder}/main.cpp ${folder}/work.cpp -o ${folder}/program)
  run(${folder}/program)
elseif(HOW STREQUAL "compiled")
  # An installed library of what needs no template.
  file(REMOVE_RECURSE ${WORK}/compiled_prefix)
  execute(${configure} -S ${SOURCE} -B ${WORK}/compiled_install -DASYNCSTEPS_TESTS=OFF -DASYNCSTEPS_BENCHMARKS=OFF
          -DASYNCSTEPS_COMPILED=ON -DCMAKE_INSTALL_PREFIX=${WORK}/compiled_prefix)
  execute(${CMAKE_COMMAND} --build ${WORK}/compiled_install)
  execute(${CMAKE_COMMAND} --install ${WORK}/compiled_install)
  consume("" -DHOW=package -DCMAKE_PREFIX_PATH=${WORK}/compiled_prefix)
  run(${WORK}/${HOW}/consumer_compiled)
  # Without CMake: one file more, and a linker that refuses other settings, whichever file has them.
  set(folder ${SOURCE}/test/consumer)
  set(library ${WORK}/library.cpp)
  file(WRITE ${library} "#define ASYNCSTEPS_IMPLEMENT\n#include \"async/async.hpp\"\n#include \"steps/steps.hpp\"\n")
  set(compile ${CXX} -std=c++20 -Wall -Wextra -Werror -pthread -I${SOURCE})
  foreach(trace IN ITEMS 0 1)
    execute(${compile} -DASYNCSTEPS_TRACE=${trace} -c ${library} -o ${WORK}/library${trace}.o)
    foreach(file IN ITEMS first second)
      execute(${compile} -DASYNCSTEPS_TRACE=${trace} -DASYNCSTEPS_COMPILED -c ${folder}/${file}.cpp
              -o ${WORK}/${file}${trace}.o)
    endforeach()
  endforeach()
  macro(link first second library)
    execute_process(
      COMMAND ${compile} ${WORK}/${first}.o ${WORK}/${second}.o ${WORK}/${library}.o -o ${WORK}/by_hand
      RESULT_VARIABLE result
      OUTPUT_VARIABLE output
      ERROR_VARIABLE output)
  endmacro()
  link(first0 second0 library0)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "files with the same settings do not link:\n${output}")
  endif()
  run(${WORK}/by_hand)
  foreach(files IN ITEMS "first0 second0 library1" "first0 second1 library0" "second1 first0 library0"
                         "first1 second0 library0" "second0 first1 library0")
    separate_arguments(files)
    link(${files})
    if(result EQUAL 0 OR NOT output MATCHES "compiled_with_trace_[01]_")
      message(FATAL_ERROR "${files}: files with other settings link, or the linker does not name them:\n${output}")
    endif()
  endforeach()
elseif(HOW STREQUAL "module")
  # Files that import the module, in projects of a newer CMake than the one that has installed the package.
  foreach(from IN ITEMS package subdirectory)
    set(folder ${WORK}/module_${from})
    file(REMOVE_RECURSE ${folder})
    execute(${CMAKE_FOR_MODULES} -G Ninja -DCMAKE_CXX_COMPILER=${CLANG} -DCMAKE_BUILD_TYPE=Debug -S
            ${SOURCE}/test/consumer/module -B ${folder} -DHOW=${from} -DSOURCE=${SOURCE} -DVERSION=${VERSION}
            -DCMAKE_PREFIX_PATH=${prefix})
    execute(${CMAKE_FOR_MODULES} --build ${folder})
    run(${folder}/consumer)
  endforeach()
elseif(HOW STREQUAL "conan")
  # The recipe makes a package and builds this folder's project with it; nothing is left in the user's own cache.
  set(ENV{CONAN_HOME} ${WORK}/conan)
  set(ENV{CXX} ${CXX})
  file(REMOVE_RECURSE ${WORK}/conan)
  execute(${CONAN} profile detect)
  execute(${CONAN} create ${SOURCE}/test/consumer/conan --no-remote --version=${VERSION} -s compiler.cppstd=20
          -c tools.cmake.cmake_layout:test_folder=${WORK}/conan/test)
  count(1 "programs that use it")
elseif(HOW STREQUAL "vcpkg")
  execute(${CMAKE_COMMAND} -DPORT=${SOURCE}/test/consumer/vcpkg/asyncsteps -DWORK=${WORK}/port -DVERSION=${VERSION}
          -DCXX=${CXX} -P ${SOURCE}/test/consumer/vcpkg/install.cmake)
  consume("" -DHOW=package -DCMAKE_PREFIX_PATH=${WORK}/port/packages/asyncsteps)
elseif(HOW STREQUAL "subdirectory")
  consume(${SOURCE})
  run(${WORK}/${HOW}/consumer_compiled)
else()
  consume("" -DCMAKE_PREFIX_PATH=${prefix})
endif()

if(NOT HOW MATCHES "^(install|tests)$")
  count(1 "ways to get the library")
endif()
