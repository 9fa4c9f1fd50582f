// SPDX-License-Identifier: BSL-1.0
//
// A completion is ended with results of the types that it names.
// expect: success\(\) takes results of the types that completion<T\.\.\.> names
#include "steps/steps.hpp"

int main() {
  const steps::completion<int> done;
  done.success('1');
#ifndef CONTROL
  done.success("1");
#endif
}
