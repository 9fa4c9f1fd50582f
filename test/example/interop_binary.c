/* SPDX-License-Identifier: BSL-1.0 */
#include <string.h>

#include "steps/interop/binary.h"

/* Readings of a sensor, as steps in C. */

struct reading {
  FutoInAsyncSteps* steps;
  FutoInHandle driver;
  int celsius;
};

// [c]
static void arrived(void* data) { /* the driver has the value */
  static const FutoInType int32 = {FTN_TYPE_INT32, NULL};
  struct reading* r = data;
  FutoInArgs results;
  memset(&results, 0, sizeof results);
  results.arg0.type = &int32;
  results.arg0.i32 = r->celsius;
  r->steps->api->success(r->steps, &results);
}
static void stop_driver(FutoInAsyncSteps* bsi, void* data) { /* the step has timed out or was cancelled */
  struct reading* r = data;
  bsi->api->sched_cancel(bsi, &r->driver);
}
static void read_sensor(FutoInAsyncSteps* bsi, void* sensor, const FutoInArgs* args) {
  struct reading* r = bsi->api->stack(bsi, sizeof *r, NULL); /* lives as long as the step */
  (void)args;
  if (r == NULL) return; /* the step has failed */
  r->steps = bsi;
  r->celsius = *(const int*)sensor;
  r->driver = bsi->api->sched_deferred(bsi, r->celsius < 100 ? 1 : 60000, r, arrived); /* too hot: no answer */
  bsi->api->setCancel(bsi, r, stop_driver);
  bsi->api->setTimeout(bsi, 20);
}
static void explain(FutoInAsyncSteps* bsi, void* sensor, const char* code) {
  (void)sensor;
  if (strcmp(code, "Timeout") == 0) bsi->api->handle_error(bsi, "NoAnswer", "the sensor is too hot");
}

void add_reading(FutoInAsyncSteps* bsi, int* sensor) { bsi->api->add(bsi, sensor, read_sensor, explain); }
// [/c]

void add_readings(FutoInAsyncSteps* bsi, int* sensor, FutoInAsyncSteps_execute_callback report, void* log) {
  add_reading(bsi, sensor);
  bsi->api->add(bsi, log, report, NULL);
}
