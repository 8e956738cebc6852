// CUDA device without hardware, for builds of torch without CUDA: all its operations do nothing.
//
// Autograd asks the hooks for the device, and the guard for the stream of each node.

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace at {
namespace {

const Device only(DeviceType::CUDA, 0);
const Stream queue(Stream::DEFAULT, only);

struct Guard final : c10::impl::NoOpDeviceGuardImpl<DeviceType::CUDA> {
  Device getDevice() const override { return only; }
  Device exchangeDevice(Device) const override { return only; }
  Stream getStream(Device) const noexcept override { return queue; }
  Stream getDefaultStream(Device) const override { return queue; }
  Stream exchangeStream(Stream) const noexcept override { return queue; }
  void record(void**, const Stream&, const DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
};

struct Hooks final : CUDAHooksInterface {
  explicit Hooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  int getNumGPUs() const override { return 1; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
};

C10_REGISTER_GUARD_IMPL(CUDA, Guard)

}  // namespace

// Torch looks the hooks up by this name.
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, Hooks)

}  // namespace at
