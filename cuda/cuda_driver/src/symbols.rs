//! The table of driver symbols: one list, from which come the exported forwarders, the names to look up and the
//! slots they jump through.

use std::sync::atomic::AtomicPtr;

use crate::fallback;

/// Defines a forwarder, a name and a slot for every symbol. `name => function` gives the slot something else
/// to hold than [`fallback::stub`] until the driver is loaded.
macro_rules! symbols {
    ($($name:ident $(=> $initial:path)?,)*) => {
        #[expect(non_camel_case_types, reason = "the variants carry the names of the C functions")]
        #[derive(Clone, Copy)]
        #[repr(usize)]
        enum Index {
            $($name,)*
        }

        /// How many symbols the table holds.
        pub(crate) const COUNT: usize = [$(Index::$name),*].len();

        /// The symbols' names, in the table's order, each with a NUL after it for the loader.
        pub(crate) static NAMES: [&str; COUNT] = [$(concat!(stringify!($name), "\0")),*];

        /// Where each symbol jumps to: its fallback at first, the driver's function once that is loaded.
        pub(crate) static SLOTS: [AtomicPtr<()>; COUNT] = [$(AtomicPtr::new(initial!($($initial)?))),*];

        mod forwarders {
            use super::{Index, SLOTS};

            $(
                // The caller's arguments stay where the C calling convention put them, in registers and on the
                // stack, so the forwarder needs no signature: it jumps, and the driver returns to the caller.
                #[unsafe(no_mangle)]
                #[unsafe(naked)]
                unsafe extern "C" fn $name() {
                    jump_through!(SLOTS, Index::$name as usize * size_of::<usize>());
                }
            )*
        }
    };
}

macro_rules! initial {
    () => {
        fallback::stub as *mut ()
    };
    ($function:path) => {
        $function as *mut ()
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! jump_through {
    ($table:ident, $offset:expr) => {
        core::arch::naked_asm!(
            "jmp qword ptr [rip + {table} + {offset}]",
            table = sym $table,
            offset = const $offset,
        )
    };
}

// x16 is the register that the procedure call standard leaves to such veneers; `hint #34` is the landing pad
// of branch target identification (bti c), a no-op where that is off.
#[cfg(all(target_arch = "aarch64", not(target_vendor = "apple")))]
macro_rules! jump_through {
    ($table:ident, $offset:expr) => {
        core::arch::naked_asm!(
            "hint #34",
            "adrp x16, {table} + {offset}",
            "ldr x16, [x16, :lo12:{table} + {offset}]",
            "br x16",
            table = sym $table,
            offset = const $offset,
        )
    };
}

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", not(target_vendor = "apple")))))]
compile_error!(
    "cuda_driver has forwarders for x86-64 and aarch64 (Linux, Windows); CUDA has no driver elsewhere"
);

symbols! {
    cuInit => fallback::load_and_init,
    cuGetErrorName => fallback::error_name,
    cuGetErrorString => fallback::error_string,

    // Everything else that cust_raw 0.11.3 declares.
    cuDriverGetVersion, cuDeviceGet, cuDeviceGetCount, cuDeviceGetName, cuDeviceGetUuid,
    cuDeviceGetUuid_v2, cuDeviceGetLuid, cuDeviceTotalMem_v2, cuDeviceGetTexture1DLinearMaxWidth,
    cuDeviceGetAttribute, cuDeviceGetNvSciSyncAttributes, cuDeviceSetMemPool, cuDeviceGetMemPool,
    cuDeviceGetDefaultMemPool, cuFlushGPUDirectRDMAWrites, cuDeviceGetProperties,
    cuDeviceComputeCapability, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRelease_v2,
    cuDevicePrimaryCtxSetFlags_v2, cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxReset_v2,
    cuDeviceGetExecAffinitySupport, cuCtxCreate_v2, cuCtxCreate_v3, cuCtxDestroy_v2, cuCtxPushCurrent_v2,
    cuCtxPopCurrent_v2, cuCtxSetCurrent, cuCtxGetCurrent, cuCtxGetDevice, cuCtxGetFlags, cuCtxSynchronize,
    cuCtxSetLimit, cuCtxGetLimit, cuCtxGetCacheConfig, cuCtxSetCacheConfig, cuCtxGetSharedMemConfig,
    cuCtxSetSharedMemConfig, cuCtxGetApiVersion, cuCtxGetStreamPriorityRange, cuCtxResetPersistingL2Cache,
    cuCtxGetExecAffinity, cuCtxAttach, cuCtxDetach, cuModuleLoad, cuModuleLoadData, cuModuleLoadDataEx,
    cuModuleLoadFatBinary, cuModuleUnload, cuModuleGetFunction, cuModuleGetGlobal_v2, cuModuleGetTexRef,
    cuModuleGetSurfRef, cuLinkCreate_v2, cuLinkAddData_v2, cuLinkAddFile_v2, cuLinkComplete,
    cuLinkDestroy, cuMemGetInfo_v2, cuMemAlloc_v2, cuMemAllocPitch_v2, cuMemFree_v2,
    cuMemGetAddressRange_v2, cuMemAllocHost_v2, cuMemFreeHost, cuMemHostAlloc,
    cuMemHostGetDevicePointer_v2, cuMemHostGetFlags, cuMemAllocManaged, cuDeviceGetByPCIBusId,
    cuDeviceGetPCIBusId, cuIpcGetEventHandle, cuIpcOpenEventHandle, cuIpcGetMemHandle,
    cuIpcOpenMemHandle_v2, cuIpcCloseMemHandle, cuMemHostRegister_v2, cuMemHostUnregister, cuMemcpy,
    cuMemcpyPeer, cuMemcpyHtoD_v2, cuMemcpyDtoH_v2, cuMemcpyDtoD_v2, cuMemcpyDtoA_v2, cuMemcpyAtoD_v2,
    cuMemcpyHtoA_v2, cuMemcpyAtoH_v2, cuMemcpyAtoA_v2, cuMemcpy2D_v2, cuMemcpy2DUnaligned_v2,
    cuMemcpy3D_v2, cuMemcpy3DPeer, cuMemcpyAsync, cuMemcpyPeerAsync, cuMemcpyHtoDAsync_v2,
    cuMemcpyDtoHAsync_v2, cuMemcpyDtoDAsync_v2, cuMemcpyHtoAAsync_v2, cuMemcpyAtoHAsync_v2,
    cuMemcpy2DAsync_v2, cuMemcpy3DAsync_v2, cuMemcpy3DPeerAsync, cuMemsetD8_v2, cuMemsetD16_v2,
    cuMemsetD32_v2, cuMemsetD2D8_v2, cuMemsetD2D16_v2, cuMemsetD2D32_v2, cuMemsetD8Async,
    cuMemsetD16Async, cuMemsetD32Async, cuMemsetD2D8Async, cuMemsetD2D16Async, cuMemsetD2D32Async,
    cuArrayCreate_v2, cuArrayGetDescriptor_v2, cuArrayGetSparseProperties,
    cuMipmappedArrayGetSparseProperties, cuArrayGetPlane, cuArrayDestroy, cuArray3DCreate_v2,
    cuArray3DGetDescriptor_v2, cuMipmappedArrayCreate, cuMipmappedArrayGetLevel, cuMipmappedArrayDestroy,
    cuMemAddressReserve, cuMemAddressFree, cuMemCreate, cuMemRelease, cuMemMap, cuMemMapArrayAsync,
    cuMemUnmap, cuMemSetAccess, cuMemGetAccess, cuMemExportToShareableHandle,
    cuMemImportFromShareableHandle, cuMemGetAllocationGranularity, cuMemGetAllocationPropertiesFromHandle,
    cuMemRetainAllocationHandle, cuMemFreeAsync, cuMemAllocAsync, cuMemPoolTrimTo, cuMemPoolSetAttribute,
    cuMemPoolGetAttribute, cuMemPoolSetAccess, cuMemPoolGetAccess, cuMemPoolCreate, cuMemPoolDestroy,
    cuMemAllocFromPoolAsync, cuMemPoolExportToShareableHandle, cuMemPoolImportFromShareableHandle,
    cuMemPoolExportPointer, cuMemPoolImportPointer, cuPointerGetAttribute, cuMemPrefetchAsync,
    cuMemAdvise, cuMemRangeGetAttribute, cuMemRangeGetAttributes, cuPointerSetAttribute,
    cuPointerGetAttributes, cuStreamCreate, cuStreamCreateWithPriority, cuStreamGetPriority,
    cuStreamGetFlags, cuStreamGetCtx, cuStreamWaitEvent, cuStreamAddCallback, cuStreamBeginCapture_v2,
    cuThreadExchangeStreamCaptureMode, cuStreamEndCapture, cuStreamIsCapturing, cuStreamGetCaptureInfo,
    cuStreamGetCaptureInfo_v2, cuStreamUpdateCaptureDependencies, cuStreamAttachMemAsync, cuStreamQuery,
    cuStreamSynchronize, cuStreamDestroy_v2, cuStreamCopyAttributes, cuStreamGetAttribute,
    cuStreamSetAttribute, cuEventCreate, cuEventRecord, cuEventRecordWithFlags, cuEventQuery,
    cuEventSynchronize, cuEventDestroy_v2, cuEventElapsedTime, cuImportExternalMemory,
    cuExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedMipmappedArray, cuDestroyExternalMemory,
    cuImportExternalSemaphore, cuSignalExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync,
    cuDestroyExternalSemaphore, cuStreamWaitValue32, cuStreamWaitValue64, cuStreamWriteValue32,
    cuStreamWriteValue64, cuStreamBatchMemOp, cuFuncGetAttribute, cuFuncSetAttribute,
    cuFuncSetCacheConfig, cuFuncSetSharedMemConfig, cuFuncGetModule, cuLaunchKernel,
    cuLaunchCooperativeKernel, cuLaunchCooperativeKernelMultiDevice, cuLaunchHostFunc,
    cuFuncSetBlockShape, cuFuncSetSharedSize, cuParamSetSize, cuParamSeti, cuParamSetf, cuParamSetv,
    cuLaunch, cuLaunchGrid, cuLaunchGridAsync, cuParamSetTexRef, cuGraphCreate, cuGraphAddKernelNode,
    cuGraphKernelNodeGetParams, cuGraphKernelNodeSetParams, cuGraphAddMemcpyNode,
    cuGraphMemcpyNodeGetParams, cuGraphMemcpyNodeSetParams, cuGraphAddMemsetNode,
    cuGraphMemsetNodeGetParams, cuGraphMemsetNodeSetParams, cuGraphAddHostNode, cuGraphHostNodeGetParams,
    cuGraphHostNodeSetParams, cuGraphAddChildGraphNode, cuGraphChildGraphNodeGetGraph,
    cuGraphAddEmptyNode, cuGraphAddEventRecordNode, cuGraphEventRecordNodeGetEvent,
    cuGraphEventRecordNodeSetEvent, cuGraphAddEventWaitNode, cuGraphEventWaitNodeGetEvent,
    cuGraphEventWaitNodeSetEvent, cuGraphAddExternalSemaphoresSignalNode,
    cuGraphExternalSemaphoresSignalNodeGetParams, cuGraphExternalSemaphoresSignalNodeSetParams,
    cuGraphAddExternalSemaphoresWaitNode, cuGraphExternalSemaphoresWaitNodeGetParams,
    cuGraphExternalSemaphoresWaitNodeSetParams, cuGraphAddMemAllocNode, cuGraphMemAllocNodeGetParams,
    cuGraphAddMemFreeNode, cuGraphMemFreeNodeGetParams, cuDeviceGraphMemTrim,
    cuDeviceGetGraphMemAttribute, cuDeviceSetGraphMemAttribute, cuGraphClone, cuGraphNodeFindInClone,
    cuGraphNodeGetType, cuGraphGetNodes, cuGraphGetRootNodes, cuGraphGetEdges, cuGraphNodeGetDependencies,
    cuGraphNodeGetDependentNodes, cuGraphAddDependencies, cuGraphRemoveDependencies, cuGraphDestroyNode,
    cuGraphInstantiate_v2, cuGraphInstantiateWithFlags, cuGraphExecKernelNodeSetParams,
    cuGraphExecMemcpyNodeSetParams, cuGraphExecMemsetNodeSetParams, cuGraphExecHostNodeSetParams,
    cuGraphExecChildGraphNodeSetParams, cuGraphExecEventRecordNodeSetEvent,
    cuGraphExecEventWaitNodeSetEvent, cuGraphExecExternalSemaphoresSignalNodeSetParams,
    cuGraphExecExternalSemaphoresWaitNodeSetParams, cuGraphUpload, cuGraphLaunch, cuGraphExecDestroy,
    cuGraphDestroy, cuGraphExecUpdate, cuGraphKernelNodeCopyAttributes, cuGraphKernelNodeGetAttribute,
    cuGraphKernelNodeSetAttribute, cuGraphDebugDotPrint, cuUserObjectCreate, cuUserObjectRetain,
    cuUserObjectRelease, cuGraphRetainUserObject, cuGraphReleaseUserObject,
    cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
    cuOccupancyMaxPotentialBlockSize, cuOccupancyMaxPotentialBlockSizeWithFlags,
    cuOccupancyAvailableDynamicSMemPerBlock, cuTexRefSetArray, cuTexRefSetMipmappedArray,
    cuTexRefSetAddress_v2, cuTexRefSetAddress2D_v3, cuTexRefSetFormat, cuTexRefSetAddressMode,
    cuTexRefSetFilterMode, cuTexRefSetMipmapFilterMode, cuTexRefSetMipmapLevelBias,
    cuTexRefSetMipmapLevelClamp, cuTexRefSetMaxAnisotropy, cuTexRefSetBorderColor, cuTexRefSetFlags,
    cuTexRefGetAddress_v2, cuTexRefGetArray, cuTexRefGetMipmappedArray, cuTexRefGetAddressMode,
    cuTexRefGetFilterMode, cuTexRefGetFormat, cuTexRefGetMipmapFilterMode, cuTexRefGetMipmapLevelBias,
    cuTexRefGetMipmapLevelClamp, cuTexRefGetMaxAnisotropy, cuTexRefGetBorderColor, cuTexRefGetFlags,
    cuTexRefCreate, cuTexRefDestroy, cuSurfRefSetArray, cuSurfRefGetArray, cuTexObjectCreate,
    cuTexObjectDestroy, cuTexObjectGetResourceDesc, cuTexObjectGetTextureDesc,
    cuTexObjectGetResourceViewDesc, cuSurfObjectCreate, cuSurfObjectDestroy, cuSurfObjectGetResourceDesc,
    cuDeviceCanAccessPeer, cuCtxEnablePeerAccess, cuCtxDisablePeerAccess, cuDeviceGetP2PAttribute,
    cuGraphicsUnregisterResource, cuGraphicsSubResourceGetMappedArray,
    cuGraphicsResourceGetMappedMipmappedArray, cuGraphicsResourceGetMappedPointer_v2,
    cuGraphicsResourceSetMapFlags_v2, cuGraphicsMapResources, cuGraphicsUnmapResources, cuGetProcAddress,
    cuGetExportTable, cuProfilerInitialize, cuProfilerStart, cuProfilerStop,

    // Newer than cust_raw: clusters, tensor maps and the lookup by version.
    cuGetProcAddress_v2, cuLaunchKernelEx, cuModuleGetLoadingMode, cuOccupancyMaxActiveClusters,
    cuOccupancyMaxPotentialClusterSize, cuTensorMapEncodeIm2col, cuTensorMapEncodeTiled,
    cuTensorMapReplaceAddress,
}

/// The slot of `cuInit`.
pub(crate) fn init_slot() -> &'static AtomicPtr<()> {
    &SLOTS[Index::cuInit as usize]
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use super::NAMES;

    #[test]
    fn no_symbol_is_listed_twice() {
        let mut names = NAMES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NAMES.len());
    }

    #[test]
    fn every_function_that_cust_declares_has_a_forwarder() {
        let source = std::fs::read_to_string(cust_raw_source()).unwrap();
        let declared: Vec<&str> = source
            .split("pub fn ")
            .skip(1)
            .filter_map(|text| text.split_once('('))
            .map(|(name, _)| name)
            .filter(|name| name.starts_with("cu"))
            .collect();
        assert!(declared.len() > 300, "{}", declared.len());
        let missing: Vec<_> = declared
            .iter()
            .filter(|name| !NAMES.iter().any(|n| n.trim_end_matches('\0') == **name))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    /// The bindings' source, wherever Cargo keeps it.
    fn cust_raw_source() -> PathBuf {
        // Only this platform's packages are sure to have been fetched when a test runs.
        let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--filter-platform", &platform, "--manifest-path"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
            .output()
            .expect("cargo starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let metadata = String::from_utf8(output.stdout).unwrap();
        let manifest = metadata
            .split("\"manifest_path\":\"")
            .filter_map(|text| text.split('"').next())
            .find(|path| path.contains("cust_raw-"))
            .expect("cust_raw is a dependency");
        PathBuf::from(manifest).with_file_name("src").join("cuda.rs")
    }
}
