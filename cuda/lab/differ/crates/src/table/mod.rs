//! The table: feature, kernels, functions, bytes of an output, cases.

use cuda_std::kernel;

#[cfg(not(target_arch = "nvptx64"))]
use crate::cases::Entry;
use crate::cases::run;
use crate::place::Place;

macro_rules! table {
    ($($feature:literal $module:ident { $($kernel:ident = $function:path, $output:expr, $cases:expr;)* })*) => {
        $(#[cfg(feature = $feature)] mod $module;)*

        /// The kernels, a Rust module for each crate, which makes them a module of PTX.
        pub mod kernels {$(
            #[cfg(feature = $feature)]
            #[doc = concat!("Kernels of ", $feature, ".")]
            pub mod $module {
                use super::super::*;

                $(
                    #[doc = concat!("`", stringify!($function), "` on the thread's case.")]
                    ///
                    /// # Safety
                    /// Same as for [`crate::table`]: places, inputs and outputs of as many cases as said.
                    #[kernel]
                    pub unsafe fn $kernel(places: *const Place, count: u32, inputs: *const u8, outputs: *mut u8) {
                        // SAFETY: the caller's promise.
                        unsafe { run(places, count, inputs, outputs, $function) }
                    }
                )*
            }
        )*}

        /// Every function of the crates that are built in.
        #[cfg(not(target_arch = "nvptx64"))]
        pub fn table() -> Vec<Entry> {
            let mut all: Vec<Entry> = Vec::new();
            $($(
                #[cfg(feature = $feature)]
                all.push(Entry {
                    kernel: stringify!($kernel),
                    run: $function,
                    output: $output,
                    cases: || {
                        #[allow(unused_imports, reason = "each line uses one of them")]
                        use crate::inputs::{blocks, lengths, texts};
                        $cases
                    },
                });
            )*)*
            all
        }
    };
}

table! {
    "aes" aes {
        aes128 = aes::aes128, 48, blocks(64, 64);
        aes256 = aes::aes256, 48, blocks(64, 64);
    }
    "arithmetic" arithmetic {
        arithmetic_f32 = arithmetic::singles, arithmetic::OUTPUT, arithmetic::singles_cases();
        arithmetic_f64 = arithmetic::doubles, arithmetic::OUTPUT, arithmetic::doubles_cases();
        arithmetic_i16 = arithmetic::absolutes, arithmetic::OUTPUT, arithmetic::absolutes_cases();
        arithmetic_i32 = arithmetic::chains, arithmetic::OUTPUT, arithmetic::chains_cases();
        arithmetic_i8 = arithmetic::bytes, arithmetic::OUTPUT, arithmetic::bytes_cases();
    }
    "base64" base64 { base64_encode = base64::encode, 208, lengths(150); base64_decode = base64::decode, 160, base64::texts(); }
    "chacha20" chacha20 { chacha20_stream = chacha20::stream, 320, lengths(300); xchacha12 = chacha20::extended, 320, lengths(160); }
    "core" of_core {
        core_sort_u8 = of_core::sort_bytes, 100, of_core::cases();
        core_sort_i32 = of_core::sort_words, 400, of_core::cases();
        core_sort_u64 = of_core::sort_long, 800, of_core::cases();
        core_sort_array = of_core::sort_array, 376, of_core::cases();
        core_select = of_core::select, 464, of_core::cases();
        core_enums = of_core::enums, 352, blocks(128, 300);
    }
    "curve25519-dalek" curve25519_dalek { x25519 = curve25519_dalek::exchange, 32, blocks(64, 16); edwards = curve25519_dalek::sum, 64, blocks(64, 8); }
    "exact" exact {
        exact_signs_f32 = exact::signs_f32, exact::OUTPUT, exact::signs_f32_cases();
        exact_signs_f64 = exact::signs_f64, exact::OUTPUT, exact::signs_f64_cases();
        exact_i8 = exact::limits_i8, exact::OUTPUT, exact::bytes();
        exact_u8 = exact::limits_u8, exact::OUTPUT, exact::bytes();
        exact_atomics = exact::atomics, exact::OUTPUT, exact::atomics_cases();
    }
    "heapless" heapless { heapless_vec = heapless::vec, 96, lengths(200); heapless_map = heapless::map, 160, lengths(200); heapless_heap = heapless::heap, 96, lengths(120); }
    "lexical-core" lexical_core {
        lexical_parse = lexical_core::parse, 48, numbers::texts();
        lexical_write = lexical_core::write, 160, blocks(16, 300);
    }
    "libm" libm {
        libm_f32 = libm::single, libm::OUTPUT, libm::singles();
        libm_f64 = libm::double, libm::OUTPUT, libm::doubles();
    }
    "memchr" memchr { memchr_find = memchr::find, 32, lengths(300); }
    "miniz_oxide" miniz_oxide { miniz_inflate = miniz_oxide::inflate, 1032, miniz_oxide::cases(); }
    "nom" nom { nom_expression = nom::expression, 16, nom::texts(); }
    "postcard" postcard { postcard_round = postcard::round, 128, blocks(64, 120); postcard_parse = postcard::parse, 96, lengths(96); }
    "ryu" ryu { ryu_all = ryu::all, 64, blocks(8, 500); }
    "sha2" sha2 {
        sha224 = sha2::sha224, 28, lengths(300);
        sha224_steps = sha2::sha224_steps, 28, lengths(300);
        sha256 = sha2::sha256, 32, lengths(300);
        sha256_steps = sha2::sha256_steps, 32, lengths(300);
        sha384 = sha2::sha384, 48, lengths(300);
        sha384_steps = sha2::sha384_steps, 48, lengths(300);
        sha512 = sha2::sha512, 64, lengths(300);
        sha512_steps = sha2::sha512_steps, 64, lengths(300);
    }
    "sha3" sha3 { sha3_256 = sha3::hash, 32, lengths(300); sha3_steps = sha3::steps, 32, lengths(300); shake128 = sha3::extended, 200, lengths(180); }
}

#[cfg(not(target_arch = "nvptx64"))]
mod numbers;
mod out;
