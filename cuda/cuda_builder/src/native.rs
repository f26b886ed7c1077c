//! The compute capability of this machine's GPU, as the driver reports it.

use std::ffi::{c_int, c_uint};

use libloading::Library;

/// The driver's library, in the order tried. `cust::LIBRARIES` has more places.
const DRIVERS: &[&str] = if cfg!(windows) {
    &["nvcuda.dll"]
} else {
    &[
        "libcuda.so.1",
        "/usr/lib/wsl/lib/libcuda.so.1",
        "/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1",
        "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1",
        "/run/opengl-driver/lib/libcuda.so.1",
    ]
};
/// The environment variable that names another library.
const VARIABLE: &str = "FERROWARP_LIBCUDA";

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `_MINOR`.
const CAPABILITY: [c_int; 2] = [75, 76];

/// The compute capability of the first GPU, 90 for 9.0.
///
/// # Errors
/// There is no driver or no GPU, or a call of the driver failed.
pub(crate) fn capability() -> Result<u32, String> {
    let library = driver()?;
    let ask = |name: &str, status: c_int| match status {
        0 => Ok(()),
        status => Err(format!("{name} answered {status}")),
    };
    let (mut device, mut parts) = (0, [0, 0]);
    // SAFETY: the functions have these types in cuda.h, the pointers are to live integers, and the library stays loaded
    // until the end.
    unsafe {
        let init = library.get::<unsafe extern "C" fn(c_uint) -> c_int>(b"cuInit\0").map_err(text)?;
        ask("cuInit", init(0))?;
        let get = library.get::<unsafe extern "C" fn(*mut c_int, c_int) -> c_int>(b"cuDeviceGet\0");
        ask("cuDeviceGet", get.map_err(text)?(&mut device, 0))?;
        type Attribute = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;
        let attribute = library.get::<Attribute>(b"cuDeviceGetAttribute\0").map_err(text)?;
        for (part, which) in parts.iter_mut().zip(CAPABILITY) {
            ask("cuDeviceGetAttribute", attribute(part, which, device))?;
        }
    }
    let [major, minor] = parts.map(|part| u32::try_from(part).unwrap_or(0));
    Ok(major * 10 + minor)
}

fn driver() -> Result<Library, String> {
    let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
    let names = named.map_or_else(|| DRIVERS.iter().map(Into::into).collect(), |name| vec![name]);
    let mut refused = Vec::new();
    for name in names {
        // SAFETY: the initialisers of NVIDIA's driver only touch its own state.
        match unsafe { Library::new(&name) } {
            Ok(library) => return Ok(library),
            Err(e) => refused.push(format!("loading {}: {e}", name.display())),
        }
    }
    Err(refused.join("; "))
}

fn text(error: libloading::Error) -> String {
    error.to_string()
}
