// SPDX-License-Identifier: BSL-1.0
//
// Relacy's searches with two and with three threads, which all models share: they take longer to compile than most
// models.
#include "relacy_runner.hpp"

template rl::test_result_e rl::run_test<model::any_suite<2>, rl::context_bound_scheduler<2>>(rl::test_params&,
                                                                                             std::ostream&, bool);
template rl::test_result_e rl::run_test<model::any_suite<2>, rl::random_scheduler<2>>(rl::test_params&, std::ostream&,
                                                                                      bool);
template rl::test_result_e rl::run_test<model::any_suite<3>, rl::context_bound_scheduler<3>>(rl::test_params&,
                                                                                             std::ostream&, bool);
template rl::test_result_e rl::run_test<model::any_suite<3>, rl::random_scheduler<3>>(rl::test_params&, std::ostream&,
                                                                                      bool);
