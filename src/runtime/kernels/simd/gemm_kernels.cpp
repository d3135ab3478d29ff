// SPDX-License-Identifier: Apache-2.0
// Products by Eigen for types that oneDNN does not support, in a separate namespace for each instruction set.
#if __has_include(<Eigen/Core>)
#define Eigen TESSERA_EIGEN
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_MPL2_ONLY
#include <Eigen/Core>
#undef Eigen
#endif

#include "kernels/simd/registration.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

namespace eigen = ::TESSERA_EIGEN;

template <class T, int kOrder>
using ConstMatrix =
    eigen::Map<const eigen::Matrix<T, eigen::Dynamic, eigen::Dynamic, kOrder>, eigen::Unaligned, eigen::OuterStride<>>;

template <class T, int kOrderA, int kOrderB>
void multiply(const GemmArgs& args) {
  const ConstMatrix<T, kOrderA> a(static_cast<const T*>(args.a), args.m, args.k, eigen::OuterStride<>(args.a_stride));
  const ConstMatrix<T, kOrderB> b(static_cast<const T*>(args.b), args.k, args.n, eigen::OuterStride<>(args.b_stride));
  eigen::Map<eigen::Matrix<T, eigen::Dynamic, eigen::Dynamic, eigen::RowMajor>, eigen::Unaligned, eigen::OuterStride<>>
      out(static_cast<T*>(args.out), args.m, args.n, eigen::OuterStride<>(args.out_stride));
  out.noalias() = a * b;
}

template <class T>
void gemm(const GemmArgs& args) {
  if (args.a_transposed && args.b_transposed) return multiply<T, eigen::ColMajor, eigen::ColMajor>(args);
  if (args.a_transposed) return multiply<T, eigen::ColMajor, eigen::RowMajor>(args);
  if (args.b_transposed) return multiply<T, eigen::RowMajor, eigen::ColMajor>(args);
  multiply<T, eigen::RowMajor, eigen::RowMajor>(args);
}

}  // namespace

void add_gemm(KernelSet& set) { set.gemm_f64 = gemm<double>; }

}  // namespace tessera::kernels::TESSERA_ISA
