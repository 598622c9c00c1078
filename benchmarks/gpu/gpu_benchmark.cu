// SPDX-License-Identifier: Apache-2.0
// Rates of the GPU's table, beside the same memory traffic without a hash table in the same run.
//
// make cuda-bench builds and runs it. Prints Markdown.
// usage: gpu_benchmark [log2 of the number of keys = 25] [repeats = 11] [dims = 8,32,64,128]
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>

#include "benchmarks/gpu/table_setting.cuh"

namespace sok::benchmark {
namespace {

void MeasureCopy(CudaQueue& queue, cudaStream_t stream, int repeats) {
  constexpr int64_t kBytes = int64_t{1} << 31;
  const Array<char> from(queue, kBytes);
  const Array<char> to(queue, kBytes);
  const Timing time = Time(stream, repeats, [&](int) {
    const QueueCall<CudaQueue> call(queue, stream);
    queue.CopyOnDevice(to.data(), from.data(), kBytes);
  });
  std::printf("Copy in device memory: %.0f GB/s, counting bytes read and written.\n\n",
              2.0 * kBytes / time.median_ms / 1e6);
}

void MeasureAll(int64_t num_keys, int repeats, const std::vector<int64_t>& dims) {
  const auto state = std::make_shared<DeviceState<CudaQueue>>(0);
  CudaQueue& queue = state->queue;
  const CudaDeviceScope scope(0);
  cudaDeviceProp properties;
  SOK_CUDA_TRY(cudaGetDeviceProperties(&properties, 0));
  std::printf("%s, %d multiprocessors, %.0f MB of L2; %lld keys in the table.\n\n", properties.name,
              properties.multiProcessorCount, properties.l2CacheSize / 1e6,
              static_cast<long long>(num_keys));
  cudaStream_t stream;
  SOK_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  MeasureCopy(queue, stream, repeats);
  const DeviceBuffer<CudaQueue> cumulated = CumulatedZipf(queue, num_keys);
  PrintHeader();
  for (const int64_t dim : dims) {
    for (const int load_percent : {50, 75}) {
      TableSetting setting(state, stream, num_keys, dim, load_percent, repeats);
      for (const int64_t batch : {int64_t{1} << 20, int64_t{4} << 20}) {
        setting.MeasureHeldKeys(batch, nullptr);
        setting.MeasureHeldKeys(batch, cumulated.as<double>());
      }
      setting.MeasureNewKeys(1 << 20);
      SOK_CUDA_TRY(cudaStreamSynchronize(stream));
    }
  }
  SOK_CUDA_TRY(cudaStreamDestroy(stream));
}

std::vector<int64_t> ParseDims(const std::string& text) {
  std::vector<int64_t> dims;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    dims.push_back(std::atoll(part.c_str()));
    if (dims.back() < 4 || dims.back() % 4 != 0) {
      Throw(ErrorCode::kInvalidArgument, "dims must be multiples of 4, got ", part);
    }
  }
  return dims;
}

}  // namespace
}  // namespace sok::benchmark

int main(int argc, char** argv) {
  const int log_keys = argc > 1 ? std::atoi(argv[1]) : 25;
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 11;
  if (log_keys < 22 || log_keys > 28 || repeats < 1) {
    std::fprintf(stderr, "usage: gpu_benchmark [log2 of keys, 22 to 28] [repeats] [dims]\n");
    return 1;
  }
  try {
    sok::benchmark::MeasureAll(int64_t{1} << log_keys, repeats,
                               sok::benchmark::ParseDims(argc > 3 ? argv[3] : "8,32,64,128"));
  } catch (const sok::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
