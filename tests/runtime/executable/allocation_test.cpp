// SPDX-License-Identifier: Apache-2.0
// All memory is planned: a run takes its arena and its results from the pool, and nothing else, for all kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "executable/memory.h"  // of src/runtime, for the pool
#include "runtime/close.h"
#include "tessera/base/rank_context.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/ops/contraction.h"
#include "tessera/runtime/executable/executable.h"

namespace {

// Counts heap allocations of at least a page on this thread. Arrays are that large; labels and lists are not.
thread_local std::int64_t large_news = 0;

[[maybe_unused]] void* counted(std::size_t bytes, std::size_t alignment) {
  if (bytes >= 4096) ++large_news;
  void* out = nullptr;
  if (posix_memalign(&out, std::max(alignment, sizeof(void*)), bytes) != 0) throw std::bad_alloc();
  return out;
}

}  // namespace

// Sanitizers replace these operators, and their versions must match.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
#endif

namespace tessera {
namespace {

// A step that updates parameter 0 in place. `body` computes %g of the same type, and the step returns %loss.
Program step_of(const std::string& parameters, const std::string& body) {
  return testing::read(R"(HloModule step, num_partitions=2, input_output_alias={ {0}: (0, {}, may-alias) }
%add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
%max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
ENTRY %main {
  %w = f32[64,96] parameter(0)
  %zero = f32[] constant(0)
)" + parameters + body +
                       R"(
  %w2 = f32[64,96] add(%w, %g)
  %loss = f32[] reduce(%g, %zero), dimensions={0,1}, to_apply=%add
  ROOT %out = (f32[64,96], f32[]) tuple(%w2, %loss)
})");
}

// Computes %g from a sum over all elements of `value`.
std::string gradient_by(const std::string& value, const std::string& dims) {
  return "\n  %total = f32[] reduce(" + value + ", %zero), dimensions={" + dims +
         "}, to_apply=%add\n  %g = f32[64,96] broadcast(%total), dimensions={}\n";
}

// Runs three steps on each of two ranks, as a training loop does.
void expect_planned(const Program& program) {
  run_virtual_ranks(2, [&](ProcessGroup& world) {
    constexpr std::int64_t kRounding = 64;  // of each block
    const MemoryPool& pool = *rank_memory().pool;
    const auto executable = compile(program, world);
    std::vector<DeviceArray> state = to_device(testing::random_arguments(program, 3));
    const std::vector<DeviceArray> data(state.begin() + 1, state.end());
    state.resize(1);
    MemoryPool::Counts before;
    std::int64_t news_before = 0;
    constexpr int kSteps = 3;
    for (int step = 0; step < kSteps; ++step) {
      if (step == 1) before = pool.counts(), news_before = large_news;
      state.insert(state.end(), data.begin(), data.end());
      state = executable->run(std::move(state));
      state.resize(1);  // the loss is dropped
    }
    EXPECT_EQ(pool.counts().taken - before.taken, kSteps - 1) << "more than the loss of each step";
    EXPECT_EQ(pool.counts().allocated - before.allocated, 0);
    EXPECT_EQ(large_news - news_before, 0) << "of the heap";
    const ExecutableMemory& plan = executable->memory();
    const auto blocks = static_cast<std::int64_t>(executable->argument_types().size()) + 2;
    EXPECT_LE(pool.info().peak, plan.held_bytes() + blocks * kRounding);
  });
}

TEST(Allocation, DotsOfEveryTypeAllocateOnlyThePlan) {
  for (const std::string type : {"f32", "bf16", "f16", "f64", "s32"}) {
    SCOPED_TRACE(type);
    const auto dot = [&](const std::string& to) {
      return "  %x = " + type + "[48,64] parameter(1)\n  %y = " + type + "[48,96] parameter(2)\n  %d = " + to +
             "[64,96] dot(%x, %y), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n";
    };
    const std::string g = "  %g = f32[64,96] convert(%d)\n";
    expect_planned(step_of(dot(type), g));
    if (type == "bf16") expect_planned(step_of(dot("f32"), g));
  }
}

// The contracting dims are not contiguous, so the operands are packed first.
TEST(Allocation, PackedDotsAllocateOnlyThePlan) {
  for (const std::string type : {"f32", "bf16", "f16", "f64", "s32"}) {
    SCOPED_TRACE(type);
    expect_planned(step_of("  %x = " + type + "[8,16,8,20] parameter(1)\n  %y = " + type + "[20,96,16] parameter(2)\n",
                           "  %d = " + type +
                               "[8,8,96] dot(%x, %y), lhs_contracting_dims={1,3}, rhs_contracting_dims={2,0}\n"
                               "  %flat = " +
                               type + "[64,96] reshape(%d)\n  %g = f32[64,96] convert(%flat)\n"));
  }
}

TEST(Allocation, AConvolutionAndItsGradientsAllocateOnlyThePlan) {
  for (const std::string type : {"f32", "bf16"}) {
    SCOPED_TRACE(type);
    expect_planned(
        step_of("  %x = " + type + "[2,12,12,8] parameter(1)\n  %k = " + type + "[3,3,8,16] parameter(2)\n",
                "  %y = " + type +
                    "[2,12,12,16] convolution(%x, %k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n"
                    "  %dx = " +
                    type +
                    "[2,12,12,8] convolution(%y, %k), window={size=3x3 pad=1_1x1_1 rhs_reversal=1x1}, "
                    "dim_labels=b01f_01oi->b01f\n"
                    "  %dk = " +
                    type +
                    "[3,3,8,16] convolution(%x, %y), window={size=12x12 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf\n"
                    "  %fx = f32[2,12,12,8] convert(%dx)\n  %fk = f32[3,3,8,16] convert(%dk)\n"
                    "  %sx = f32[] reduce(%fx, %zero), dimensions={0,1,2,3}, to_apply=%add\n"
                    "  %gx = f32[64,96] broadcast(%sx), dimensions={}\n"
                    "  %sk = f32[] reduce(%fk, %zero), dimensions={0,1,2,3}, to_apply=%add\n"
                    "  %gk = f32[64,96] broadcast(%sk), dimensions={}\n  %g = f32[64,96] subtract(%gx, %gk)\n"));
  }
}

TEST(Allocation, AttentionAllocatesOnlyThePlan) {
  for (const std::string type : {"f32", "bf16"}) {
    SCOPED_TRACE(type);
    const std::string scores = "[2,4,32,32]";
    expect_planned(step_of("  %q = " + type + "[2,32,4,16] parameter(1)\n  %k = " + type +
                               "[2,32,4,16] parameter(2)\n"
                               "  %v = " +
                               type + "[2,32,4,16] parameter(3)\n",
                           "  %low = f32[] constant(-inf)\n"
                           "  %qt = " +
                               type +
                               "[2,4,32,16] transpose(%q), dimensions={0,2,1,3}\n"
                               "  %kt = " +
                               type +
                               "[2,4,32,16] transpose(%k), dimensions={0,2,1,3}\n"
                               "  %vt = " +
                               type +
                               "[2,4,32,16] transpose(%v), dimensions={0,2,1,3}\n"
                               "  %s = " +
                               type + scores +
                               " dot(%qt, %kt), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, "
                               "rhs_contracting_dims={3}\n"
                               "  %f = f32" +
                               scores +
                               " convert(%s)\n"
                               "  %m = f32[2,4,32] reduce(%f, %low), dimensions={3}, to_apply=%max\n"
                               "  %mb = f32" +
                               scores +
                               " broadcast(%m), dimensions={0,1,2}\n"
                               "  %e = f32" +
                               scores + " subtract(%f, %mb)\n  %p = f32" + scores +
                               " exponential(%e)\n"
                               "  %n = f32[2,4,32] reduce(%p, %zero), dimensions={3}, to_apply=%add\n"
                               "  %nb = f32" +
                               scores +
                               " broadcast(%n), dimensions={0,1,2}\n"
                               "  %a = f32" +
                               scores + " divide(%p, %nb)\n  %b = " + type + scores +
                               " convert(%a)\n"
                               "  %o = " +
                               type +
                               "[2,4,32,16] dot(%b, %vt), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, "
                               "lhs_contracting_dims={3}, rhs_contracting_dims={2}\n"
                               "  %of = f32[2,4,32,16] convert(%o)\n" +
                               gradient_by("%of", "0,1,2,3")));
  }
}

// Read in place (complete pages along dim 0), and packed along an inner dim.
TEST(Allocation, AllGathersAllocateOnlyThePlan) {
  const std::string groups = "channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true";
  for (const int dim : {0, 1}) {
    SCOPED_TRACE(dim);
    const std::string gathered = dim == 0 ? "f32[128,64]" : "f32[64,128]";
    expect_planned(step_of("  %x = f32[64,64] parameter(1)\n",
                           "  %n = f32[64,64] negate(%x)\n  %a = " + gathered + " all-gather(%n), " + groups +
                               ", dimensions={" + std::to_string(dim) + "}\n" + gradient_by("%a", "0,1")));
  }
}

// The memory that is promised before a run contains only one arena.
TEST(Allocation, ALargerArenaReplacesTheSmallerOne) {
  RankContext context(0, 1);
  const RankScope scope(context);
  const auto world = make_single_rank_world();
  const auto squares = [](std::int64_t size) {
    return testing::program_of({Type::array(DType::kF32, {size, size})}, [](Builder&, const std::vector<Value>& v) {
      const DotAttributes product{{}, {1}, {}, {0}};
      return ops::dot(ops::dot(v[0], v[0], product), v[0], product);
    });
  };
  (void)run_program(squares(256), *world, testing::random_arguments(squares(256), 1));
  const std::int64_t small = rank_memory().arena->bytes();
  ASSERT_GE(small, 256 * 256 * 4);
  (void)rank_memory().arena_of(2 * small, "larger");
  EXPECT_LT(rank_memory().pool->info().pooled, small);
}

}  // namespace
}  // namespace tessera
