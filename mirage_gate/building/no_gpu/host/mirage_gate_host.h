// What MPK's graph generator needs of CUDA's, cuBLAS's and CUTLASS's headers to be compiled by a
// host compiler: a few plain types. No kernel is compiled and none is launched.
#pragma once

#include <cstddef>
#include <cstdint>

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1)
      : x(x_), y(y_), z(z_) {}
};

struct int2 {
  int x, y;
};

struct int3 {
  int x, y, z;
};

struct uint3 {
  unsigned int x, y, z;
};

inline int2 make_int2(int x, int y) { return int2{x, y}; }

inline int3 make_int3(int x, int y, int z) { return int3{x, y, z}; }

typedef int cudaError_t;
typedef struct mirage_gate_stream *cudaStream_t;
typedef struct mirage_gate_event *cudaEvent_t;
typedef struct mirage_gate_cublas *cublasHandle_t;
enum { cudaSuccess = 0 };

struct cudaDeviceProp {
  int major, minor, multiProcessorCount;
  std::size_t sharedMemPerBlockOptin;
};

#ifndef __CUDACC__
#define __host__
#define __device__
#define __global__
#define __managed__
#define __forceinline__ inline
#endif

#define CUTLASS_HOST_DEVICE inline
#define CUTLASS_DEVICE inline

namespace cute {}
namespace cutlass {}
