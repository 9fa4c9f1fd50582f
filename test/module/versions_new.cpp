// SPDX-License-Identifier: BSL-1.0
#include "module/versions_half.hpp"

const module_test::half module_test::new_half = own_half;
