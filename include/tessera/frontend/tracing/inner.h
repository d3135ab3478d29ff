// SPDX-License-Identifier: Apache-2.0
// The names of traces and variables without `detail::`. The sources of Tessera include this header. Programs that
// define their own functions may include it. The other public headers do not include it.
#pragma once

#include "tessera/frontend/tracing/function_trace.h"
#include "tessera/frontend/tracing/trace.h"

namespace tessera {

using detail::at_call;
using detail::FunctionTrace;
using detail::GradientRules;
using detail::GraphBreak;
using detail::library_call;
using detail::Node;
using detail::NodeHandle;
using detail::stored_tensor;
using detail::SyncScope;
using detail::TensorImpl;
using detail::Trace;
using detail::trace;
using detail::TraceScope;
using detail::Unshard;
using detail::UpdateShards;

}  // namespace tessera
