// SPDX-License-Identifier: BSL-1.0
//
// Uses most of the library with types of a namespace that has a deleted function of each name that the headers call,
// and whose operators & and , are deleted. Compiled by names.py, not run.
#include <chrono>
#include <coroutine>
#include <exception>
#include <functional>
#include <future>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/when_all.hpp"
#include "steps/steps.hpp"

namespace user {
#include "deleted_functions.inc"
struct val {
  int x = 0;
  val() = default;
  val(int i) : x(i) {}
  val(const val&) = default;
  val(val&&) = default;
  val& operator=(const val&) = default;
  val& operator=(val&&) = default;
  void operator&() const = delete;
  template <class T>
  void operator,(T&&) const = delete;
  bool operator==(const val& o) const { return x == o.x; }
};
template <class T>
void operator,(T&&, const val&) = delete;
/// A class of a function object.
#define CALLABLE(NAME, ...)             \
  struct NAME {                         \
    void operator&() const = delete;    \
    template <class T>                  \
    void operator,(T&&) const = delete; \
    __VA_ARGS__                         \
  };
CALLABLE(f0, val operator()() { return {1}; })
CALLABLE(fv, void operator()(){})
CALLABLE(f1, val operator()(val v) { return v; })
CALLABLE(cont, val operator()(async::future<val> v) { return v.get(); })
CALLABLE(cont2, async::future<val> operator()(async::future<val> v) { return v; })
CALLABLE(st0, void operator()(steps::IAsyncSteps& a) { a.success(val{1}, val{2}); })
CALLABLE(st2, void operator()(steps::IAsyncSteps& a, val x, const val& y) { a.success(val{x.x + y.x}); })
CALLABLE(st1, void operator()(steps::IAsyncSteps& a, val&& x) { a.success(static_cast<val&&>(x)); })
CALLABLE(sv, void operator()(steps::IAsyncSteps& a){})
CALLABLE(svv, void operator()(steps::IAsyncSteps& a, val){})
CALLABLE(eh, void operator()(steps::IAsyncSteps& a, steps::ErrorCode) { a.success(val{7}); })
CALLABLE(rep, void operator()(steps::IAsyncSteps& a, std::size_t i){})
CALLABLE(fe, void operator()(steps::IAsyncSteps& a, std::size_t i, val& v){})
CALLABLE(fem, void operator()(steps::IAsyncSteps& a, const val& k, val& v){})
CALLABLE(loopf, void operator()(steps::IAsyncSteps& a) { a.breakLoop(); })
CALLABLE(hook_x, void operator()(steps::ErrorCode){})
CALLABLE(tracehook, void operator()(const std::exception&){})
CALLABLE(exhook, void operator()(std::exception_ptr){})
CALLABLE(popf, void operator()(val v){})
CALLABLE(rdyf, void operator()(async::future<val>& v){})
CALLABLE(apopf, void operator()(steps::IAsyncSteps& a, val v) { a.success(static_cast<val&&>(v)); })
CALLABLE(ardyf, void operator()(steps::IAsyncSteps& a, async::future<val>& v) { a.success(v.get()); })
CALLABLE(each_x, void operator()(val& v) { v.x++; })
CALLABLE(red, val operator()(val a, val b) { return val{a.x + b.x}; })
CALLABLE(filter_x, bool operator()(steps::ErrorCode) { return true; })
CALLABLE(co0, steps::interop::task<val> operator()(steps::IAsyncSteps& a) { co_return val{3}; })
#undef CALLABLE
struct less {
  bool operator()(const val& a, const val& b) const { return a.x < b.x; }
};
struct stopped_ex {
  val v;
};
}  // namespace user
using namespace std::chrono_literals;
using user::apopf;
using user::ardyf;
using user::co0;
using user::cont;
using user::cont2;
using user::each_x;
using user::eh;
using user::exhook;
using user::f0;
using user::f1;
using user::fe;
using user::fem;
using user::filter_x;
using user::fv;
using user::hook_x;
using user::less;
using user::loopf;
using user::popf;
using user::rdyf;
using user::red;
using user::rep;
using user::st0;
using user::st1;
using user::st2;
using user::sv;
using user::svv;
using user::tracehook;
using user::val;
namespace {
steps::interop::task<val> t1(async::threadpool& pool, async::bounded_queue<val>& bq, async::queue<val>& q) {
  f0 f;
  f1 g;
  val v{1};
  val r = co_await steps::interop::post(pool, g, v);
  bool b = co_await bq.push(r);
  static_cast<void>(b);
  std::optional<val> o = co_await bq.pop();
  b = co_await q.push(*o);
  o = co_await q.pop();
  val z = co_await pool.post(f);
  async::promise<val> pr;
  auto fu = pr.get_future();
  pr.set_value(v);
  z = co_await std::move(fu);
  async::shared_future<val> sf = pool.post(f).share();
  z = co_await sf;
  popf p;
  co_await q.push(v);
  std::size_t w = co_await async::selection(async::on_pop(q, p), async::after(1ms));
  static_cast<void>(w);
  co_return z;
}
steps::interop::task<val> t0() { co_return val{1}; }
steps::interop::task<int> t2() {
  auto [a, b] = co_await steps::interop::when_all(t0(), t0());
  auto w = co_await steps::interop::when_any(t0(), t0());
  static_cast<void>(w);
  std::vector<steps::interop::task<val>> v;
  v.push_back(t0());
  auto r = co_await steps::interop::when_all(std::move(v));
  static_cast<void>(r);
  co_return a.x + b.x;
}
}  // namespace

int main() {
  async::threadpool pool(2);
  async::blocking_pool bp;
  val v{5};
  f0 F0;
  f1 F1;
  fv FV;
  cont C;
  cont2 C2;
  auto a = pool.post(F0);
  auto b = pool.post(F1, v);
  pool.execute(FV);
  pool.execute(F1, v);
  pool.execute(async::priority::high, F1, v);
  pool.execute(async::priority::low, FV);
  pool.post(async::priority::high, F1, v).get();
  bp.post(F1, v).get();
  bp.execute(F1, v);
  std::vector<fv> many(3);
  pool.bulk_execute(many.begin(), 3);
  auto c = std::move(a).then(C);
  auto d = std::move(c).then(pool, C);
  auto e = std::move(d).then(bp, C2);
  auto g = std::move(e).then(C2);
  g.get();
  b.get();
  std::future<val> sf = async::async(F1, v);
  sf.get();
  async::async(std::launch::deferred, F0).get();
  std::future<val> conv = pool.post(F0);
  async::future<val> back(std::move(conv));
  back.get();
  pool.wait(pool.post(F0));
  async::when_all(pool.post(F0), pool.post(F0)).get();
  async::when_any(pool.post(F0), pool.post(F0)).get();
  std::vector<async::future<val>> vf;
  vf.push_back(pool.post(F0));
  async::when_all(std::move(vf)).get();
  async::future_group fg;
  fg.add(pool.post(F0));
  fg.when_empty().get();
  async::make_ready_future(v).get();
  async::shared_future<val> shf = pool.post(F0);
  std::shared_future<val> ssf = shf;
  ssf.get();
  async::task tk(FV);
  tk();
  async::task_group tg(pool);
  tg.run(FV);
  tg.run_and_wait(FV);
  tg.wait();
  async::parallel_invoke(pool, FV, FV, FV);
  async::parallel_invoke(FV, FV);
  std::vector<val> vec(1000);
  each_x E;
  red R;
  async::parallel_for(pool, vec.begin(), vec.end(), E);
  async::parallel_for(pool, vec, E);
  async::parallel_for(vec, E, 10);
  static_cast<void>(async::parallel_reduce(pool, vec, val{0}, R, R).x);
  async::queue<val> q;
  async::bounded_queue<val> bq(4);
  popf P;
  rdyf RD;
  q.enqueue(v);
  q.dequeue(v);
  q.enqueue(1);
  static_cast<void>(q.dequeue());
  q.bulk_enqueue(vec.begin(), 10);
  val out[10];
  q.bulk_dequeue(std::begin(out), 10);
  q.enqueue(v);
  q.blocking_dequeue(v);
  q.dequeue_for(v, 1ms);
  bq.enqueue(v);
  bq.dequeue(v);
  bq.enqueue(1);
  static_cast<void>(bq.dequeue());
  bq.bulk_enqueue(vec.begin(), 4);
  bq.bulk_dequeue(std::begin(out), 4);
  bq.blocking_enqueue(v);
  bq.blocking_dequeue(v);
  bq.dequeue_for(v, 1ms);
  bq.enqueue_for(1ms, v);
  bq.enqueue_until(std::chrono::steady_clock::now(), v);
  auto rf = pool.post(F0);
  async::event ev;
  async::select(async::on_pop(q, P, FV), async::on_push(bq, v, FV, FV), async::on_ready(rf, RD), async::on_set(ev, FV),
                async::after(1ms, FV), async::otherwise(FV));
  {
    async::event_loop l;
    l.post(FV);
    l.immediate(FV);
    l.deferred(1ms, FV);
    exhook EX;
    l.on_unhandled(EX);
    l.run_for(3ms);
  }
  // steps
  st0 S0;
  st2 S2;
  st1 S1;
  sv SV;
  eh EH;
  rep RP;
  fe FE;
  fem FM;
  loopf LF;
  hook_x HK;
  tracehook TH;
  apopf AP;
  ardyf AR;
  svv SVV;
  filter_x FI;
  auto build = [&](steps::IAsyncSteps& flow) {
    flow.add(S0).add(S2, EH).add(S1);
    flow.add([&](steps::IAsyncSteps& asi) {
      asi.state("k", v);
      asi.state()["j"] = v;
      asi.stack<val>(v);
      asi.onEnd(FV);
      asi.setCancel(FV);
      asi.add(SV);
      asi.state().set_unhandled_error(HK);
      asi.state().set_catch_trace(TH);
    });
    flow.await(pool, F1, v).add(S1).await(bp, F1, v).await(pool.post(F0)).add(S1).await(pool.post(F0), EH).await(shf);
    flow.await(async::async(F0));
    flow.enqueue(bq, v).await(bq).add(S1).enqueue(q, v).await(q, EH);
    flow.loop(LF)
        .repeat(3, RP)
        .forEach(std::vector<val>(3), FE)
        .forEach(std::map<val, val, less>{{val{1}, val{2}}}, FM)
        .forEach(std::ref(vec), FE);
    flow.retry({.attempts = 2, .delay = 1ms}, SV);
    flow.successStep(v).add(SVV);
    auto& p = flow.parallel(EH);
    p.add(SV).add(SV);
    auto& r = flow.race(EH);
    r.add(SV).add(SV);
    flow.add([&](steps::IAsyncSteps& asi) {
      bq.enqueue(v);
      asi.select(async::on_pop(bq, AP), async::after(1ms, SV), EH);
    });
    flow.add([&](steps::IAsyncSteps& asi) { asi.select(async::on_ready(pool.post(F0), AR), async::after(100ms, SV)); });
    flow.add([&](steps::IAsyncSteps& asi) { asi.select(async::on_push(bq, v, SV), async::after(100ms, SV)); });
    flow.add([&](steps::IAsyncSteps& asi) {
      auto done = asi.completion<val, val>();
      pool.execute([done, &v] { done.success(v, v); });
    });
    flow.add(S2);
    co0 CO;
    flow.add(steps::interop::co(CO)).add(S1);
  };
  steps::Mutex m;
  steps::Limiter lim{{.concurrent = 1, .rate = 100}};
  steps::Semaphore sem(1);
  {
    steps::AsyncTool tool;
    steps::AsyncSteps flow{tool};
    build(flow);
    flow.sync(m, S0).sync(lim, S2, EH).sync(sem, S1);
    static_cast<void>(flow.promise<val>().get().x);
  }
  {
    steps::AsyncSteps flow{pool};
    build(flow);
    static_cast<void>(flow.promise<val>().get().x);
  }
  static_cast<void>(steps::post<val>(pool,
                                     [&](steps::IAsyncSteps& a) {
                                       a.add(S0);
                                       a.add(S2);
                                     })
                        .get()
                        .x);
  steps::post(pool, SV).get();
  static_cast<void>(steps::interop::start(t1(pool, bq, q)).get().x);
  static_cast<void>(steps::interop::start(t2()).get());
}
