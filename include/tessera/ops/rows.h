// SPDX-License-Identifier: Apache-2.0
// All rows of the op table by name, for code that must recognize one op that no property of its row identifies
// (`op == &rows::kPad`). Each row is defined in the file of its op and listed in op_table.cpp.
#pragma once

#include "tessera/ir/op_def.h"

namespace tessera::rows {

// unary.cpp
extern const OpDef kAcos, kAcosh, kAsin, kAsinh, kAtanh, kCosh, kSinh, kNegate, kAbs, kSign, kNot, kExponential,
    kExponentialMinusOne, kLog, kLogPlusOne, kSqrt, kRsqrt, kCbrt, kTanh, kTan, kSine, kCosine, kLogistic, kErf, kFloor,
    kCeil, kRoundNearestEven, kRoundNearestAfz, kIsFinite, kPopcnt, kCountLeadingZeros;
// binary.cpp
extern const OpDef kAdd, kSubtract, kMultiply, kDivide, kRemainder, kPower, kMaximum, kMinimum, kAtan2, kAnd, kOr, kXor,
    kShiftLeft, kShiftRightArithmetic, kShiftRightLogical;
// compare.cpp, select_clamp.cpp, convert.cpp
extern const OpDef kCompare, kSelect, kClamp, kConvert, kBitcastConvert;
// parameter_constant.cpp, iota.cpp, broadcast.cpp, reshape.cpp, transpose.cpp
extern const OpDef kParameter, kConstant, kIota, kBroadcast, kReshape, kTranspose;
// slice.cpp, pad.cpp, concatenate.cpp, reverse.cpp
extern const OpDef kSlice, kPad, kConcatenate, kReverse;
// tuple.cpp, device_id.cpp
extern const OpDef kCopy, kTuple, kGetTupleElement, kOptBarrier, kAfterAll, kAddDependency, kDomain, kPartitionId,
    kReplicaId;
// dot.cpp, scaled_dot.cpp, reduce.cpp
extern const OpDef kDot, kScaledDot, kReduce;
// convolution.cpp, reduce_window.cpp, select_and_scatter.cpp
extern const OpDef kConvolution, kReduceWindow, kSelectAndScatter;

// gather.cpp, scatter.cpp, dynamic_slice.cpp, sort.cpp, rng.cpp
extern const OpDef kGather, kScatter, kDynamicSlice, kDynamicUpdateSlice, kSort, kRngBitGenerator;
// control_flow.cpp, custom_call.cpp
extern const OpDef kCall, kFusion, kWhile, kConditional, kCustomCall;
// complex.cpp, bitcast.cpp, reduce_precision.cpp, map.cpp, dynamic_dims.cpp
extern const OpDef kComplex, kReal, kImag, kBitcast, kReducePrecision, kStochasticConvert, kMap, kGetDimensionSize;
// fft.cpp, linear_algebra.cpp, topk.cpp, ragged_dot.cpp, batch_norm.cpp
extern const OpDef kFft, kCholesky, kTriangularSolve, kTopK, kRaggedDot, kBatchNormTraining, kBatchNormInference,
    kBatchNormGrad;
// attention.cpp
extern const OpDef kAttention, kAttentionBackward;
// effects.cpp
extern const OpDef kInfeed, kOutfeed, kSend, kSendDone, kRecv, kRecvDone, kRng, kRngGetAndUpdateState;
// async.cpp
extern const OpDef kAsyncStart, kAsyncUpdate, kAsyncDone, kCopyStart, kCopyDone, kAllGatherStart, kAllGatherDone,
    kAllReduceStart, kAllReduceDone, kCollectivePermuteStart, kCollectivePermuteDone;
// host_memory.cpp
extern const OpDef kMoveToHost, kMoveToDevice;
// collectives.cpp
extern const OpDef kAllGather, kReduceScatter, kAllReduce, kAllToAll, kCollectivePermute, kCollectiveBroadcast,
    kRaggedAllToAll;

}  // namespace tessera::rows
