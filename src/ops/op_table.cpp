// SPDX-License-Identifier: Apache-2.0
#include "tessera/ops/op_table.h"

#include "rows.h"

namespace tessera {

const OpTable& op_table() {
  using namespace rows;
  static const OpTable table(
      {// Made or moved elements.
       &kParameter, &kConstant, &kIota, &kBroadcast, &kReshape, &kTranspose, &kSlice, &kPad, &kConcatenate, &kReverse,
       // One value in, the same out.
       &kCopy, &kTuple, &kGetTupleElement, &kOptBarrier, &kAfterAll, &kPartitionId, &kReplicaId,
       // Elementwise.
       &kNegate, &kAbs, &kSign, &kNot, &kExponential, &kExponentialMinusOne, &kLog, &kLogPlusOne, &kSqrt, &kRsqrt,
       &kCbrt, &kTanh, &kTan, &kSine, &kCosine, &kLogistic, &kErf, &kFloor, &kCeil, &kRoundNearestEven,
       &kRoundNearestAfz, &kIsFinite, &kPopcnt, &kCountLeadingZeros, &kAdd, &kSubtract, &kMultiply, &kDivide,
       &kRemainder, &kPower, &kMaximum, &kMinimum, &kAtan2, &kAnd, &kOr, &kXor, &kShiftLeft, &kShiftRightArithmetic,
       &kShiftRightLogical, &kCompare, &kSelect, &kClamp, &kConvert, &kBitcastConvert,
       // Contraction.
       &kDot, &kReduce, &kConvolution, &kReduceWindow, &kSelectAndScatter,
       // Indexing, random numbers.
       &kGather, &kScatter, &kDynamicSlice, &kDynamicUpdateSlice, &kSort, &kRngBitGenerator,
       // Control flow, custom calls.
       &kCall, &kWhile, &kConditional, &kCustomCall,
       // Collectives.
       &kAllGather, &kReduceScatter, &kAllReduce, &kAllToAll, &kCollectivePermute, &kCollectiveBroadcast},
      // What HLO has besides.
      "acos acosh add-dependency all-gather-done all-gather-start all-reduce-done all-reduce-start asin asinh "
      "async-done async-start async-update atanh batch-norm-grad batch-norm-inference batch-norm-training bitcast "
      "cholesky collective-permute-done collective-permute-start complex copy-done copy-start cosh domain "
      "dynamic-reshape fft fusion get-dimension-size imag infeed map outfeed ragged-all-to-all ragged-dot real recv "
      "recv-done reduce-precision rng rng-get-and-update-state scaled-dot send "
      "send-done set-dimension-size sinh stochastic-convert topk triangular-solve");
  return table;
}

}  // namespace tessera
