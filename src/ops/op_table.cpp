// SPDX-License-Identifier: Apache-2.0
#include "tessera/ops/op_table.h"

#include "tessera/ops/rows.h"

namespace tessera {

const OpTable& op_table() {
  using namespace rows;
  static const OpTable kTable(
      {// Creation and movement of elements.
       &kParameter, &kConstant, &kIota, &kBroadcast, &kReshape, &kTranspose, &kSlice, &kPad, &kConcatenate, &kReverse,
       // Identities.
       &kCopy, &kTuple, &kGetTupleElement, &kOptBarrier, &kAfterAll, &kAddDependency, &kDomain, &kBitcast,
       &kPartitionId, &kReplicaId,
       // Elementwise.
       &kAcos, &kAcosh, &kAsin, &kAsinh, &kAtanh, &kCosh, &kSinh, &kComplex, &kReal, &kImag, &kReducePrecision,
       &kStochasticConvert, &kMap, &kNegate, &kAbs, &kSign, &kNot, &kExponential, &kExponentialMinusOne, &kLog,
       &kLogPlusOne, &kSqrt, &kRsqrt, &kCbrt, &kTanh, &kTan, &kSine, &kCosine, &kLogistic, &kErf, &kFloor, &kCeil,
       &kRoundNearestEven, &kRoundNearestAfz, &kIsFinite, &kPopcnt, &kCountLeadingZeros, &kAdd, &kSubtract, &kMultiply,
       &kDivide, &kRemainder, &kPower, &kMaximum, &kMinimum, &kAtan2, &kAnd, &kOr, &kXor, &kShiftLeft,
       &kShiftRightArithmetic, &kShiftRightLogical, &kCompare, &kSelect, &kClamp, &kConvert, &kBitcastConvert,
       // Contraction.
       &kDot, &kScaledDot, &kReduce, &kConvolution, &kReduceWindow, &kSelectAndScatter, &kRaggedDot, &kFft, &kCholesky,
       &kTriangularSolve, &kBatchNormTraining, &kBatchNormInference, &kBatchNormGrad, &kAttention, &kAttentionBackward,
       // Indexing, random numbers.
       &kGather, &kScatter, &kDynamicSlice, &kDynamicUpdateSlice, &kSort, &kTopK, &kRngBitGenerator, &kRng,
       &kGetDimensionSize,
       // Control flow, custom calls.
       &kCall, &kFusion, &kWhile, &kConditional, &kCustomCall,
       // Transfers to and from files.
       &kMoveToHost, &kMoveToDevice,
       // Effects, and asynchronous operations.
       &kInfeed, &kOutfeed, &kSend, &kSendDone, &kRecv, &kRecvDone, &kRngGetAndUpdateState, &kAsyncStart, &kAsyncUpdate,
       &kAsyncDone, &kCopyStart, &kCopyDone, &kAllGatherStart, &kAllGatherDone, &kAllReduceStart, &kAllReduceDone,
       &kCollectivePermuteStart, &kCollectivePermuteDone,
       // Collectives.
       &kAllGather, &kReduceScatter, &kAllReduce, &kAllToAll, &kCollectivePermute, &kCollectiveBroadcast,
       &kRaggedAllToAll},
      // Ops of HLO without a row.
      "dynamic-reshape set-dimension-size");
  return kTable;
}

}  // namespace tessera
