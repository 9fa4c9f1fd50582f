# SPDX-License-Identifier: BSL-1.0
#
# benchmark/run from end to end at its smallest: builds every program, runs a few workloads, writes its report, and each
# table has ours and a ratio to it.
#   cmake -DSOURCE=the-project -DWORK=a-folder -P run.cmake
file(REMOVE_RECURSE ${WORK})
execute_process(
  COMMAND ${SOURCE}/benchmark/run --no-install --quick --repetitions 2 --out ${WORK}
          --filter "((queue/pair|bounded/pair|pool/tree)/(async|std|mutex))|(flows/fan-out 8/(steps::p|std))|(growth/timers c.* 10{0,2}/)"
  OUTPUT_VARIABLE output ERROR_VARIABLE error RESULT_VARIABLE result)
message("${error}${output}")
if(result EQUAL 0)
  foreach(file IN ITEMS queue.json pool.json steps.json flows.json queue.svg bounded.svg pool.svg flows.svg growth.svg
          index.html results.json table.txt README.md)
    if(NOT EXISTS ${WORK}/${file})
      message(FATAL_ERROR "benchmark/run wrote no ${file}")
    endif()
  endforeach()
  execute_process(COMMAND python3 ${SOURCE}/benchmark/reporter --assert-ratios ${WORK}/queue.json ${WORK}/pool.json ${WORK}/flows.json
                          ${WORK}/steps.json
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${SOURCE}/benchmark/run --no-install --filter "[" --out ${WORK}
                  OUTPUT_QUIET ERROR_VARIABLE error RESULT_VARIABLE result)
  if(NOT result EQUAL 2 OR NOT error MATCHES ": --filter: ")
    message(FATAL_ERROR "benchmark/run takes a filter that is no regular expression: ${result}\n${error}")
  endif()
elseif(error MATCHES "can't go on without")
  message("skipped: benchmark/run lacks something that it needs")
else()
  message(FATAL_ERROR "benchmark/run failed: ${result}")
endif()
