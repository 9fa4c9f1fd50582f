// SPDX-License-Identifier: BSL-1.0
//
// A completion is ended with the results that it names.
// expect: success\(\) takes the results that completion<T...> names
#include "steps/steps.hpp"

int main() {
  const steps::completion<int> done;
  done.success(1);
#ifndef CONTROL
  done.success(1, 2);
#endif
}
