//! The table: feature, kernels, functions, bytes of an output, cases.

use cuda_std::kernel;

#[cfg(not(target_arch = "nvptx64"))]
use crate::cases::Entry;
use crate::cases::{Place, run};

macro_rules! table {
    ($($feature:literal $module:ident { $($kernel:ident = $function:path, $output:expr, $cases:expr;)* })*) => {
        $(#[cfg(feature = $feature)] mod $module;)*

        $($(
            #[doc = concat!("`", stringify!($function), "` on the thread's case.")]
            ///
            /// # Safety
            /// Same as for [`crate::table`]: places, inputs and outputs of as many cases as said.
            #[cfg(feature = $feature)]
            #[kernel]
            pub unsafe fn $kernel(places: *const Place, count: u32, inputs: *const u8, outputs: *mut u8) {
                // SAFETY: the caller's promise.
                unsafe { run(places, count, inputs, outputs, $function) }
            }
        )*)*

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
    "adler2" adler2 { adler32 = adler2::sum, 4, lengths(300); adler32_steps = adler2::steps, 4, lengths(300); }
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
    "arrayvec" arrayvec { arrayvec_edits = arrayvec::edits, 80, lengths(200); arrayvec_string = arrayvec::string, 48, lengths(60); }
    "base64" base64 { base64_encode = base64::encode, 208, lengths(150); base64_decode = base64::decode, 160, base64::texts(); }
    "blake2" blake2 {
        blake2b = blake2::big, 64, lengths(300);
        blake2b_steps = blake2::big_steps, 64, lengths(300);
        blake2s = blake2::small, 32, lengths(300);
        blake2s_steps = blake2::small_steps, 32, lengths(300);
    }
    "blake3" blake3 { blake3_hash = blake3::hash, 32, blake3::cases(); blake3_steps = blake3::steps, 96, blake3::cases(); }
    "chacha20" chacha20 { chacha20_stream = chacha20::stream, 320, lengths(300); xchacha12 = chacha20::extended, 320, lengths(160); }
    "cobs" cobs { cobs_round = cobs::round, 640, lengths(280); }
    "core" of_core {
        core_sort_u8 = of_core::sort_bytes, 100, of_core::cases();
        core_sort_i32 = of_core::sort_words, 400, of_core::cases();
        core_sort_u64 = of_core::sort_long, 800, of_core::cases();
        core_sort_array = of_core::sort_array, 376, of_core::cases();
        core_select = of_core::select, 464, of_core::cases();
        core_enums = of_core::enums, 352, blocks(128, 300);
    }
    "crc" crc { crc_16 = crc::narrow, 8, lengths(300); crc_64 = crc::wide, 24, lengths(300); }
    "crc32fast" crc32fast { crc32_fast = crc32fast::sum, 8, lengths(300); }
    "crypto-bigint" crypto_bigint {
        bigint_256 = crypto_bigint::of_256, 256, blocks(96, 60);
        bigint_1024 = crypto_bigint::of_1024, 512, blocks(256, 24);
    }
    "curve25519-dalek" curve25519_dalek { x25519 = curve25519_dalek::exchange, 32, blocks(64, 16); edwards = curve25519_dalek::sum, 64, blocks(64, 8); }
    "exact" exact {
        exact_signs_f32 = exact::signs_f32, exact::OUTPUT, exact::signs_f32_cases();
        exact_signs_f64 = exact::signs_f64, exact::OUTPUT, exact::signs_f64_cases();
        exact_i8 = exact::limits_i8, exact::OUTPUT, exact::bytes();
        exact_u8 = exact::limits_u8, exact::OUTPUT, exact::bytes();
        exact_atomics = exact::atomics, exact::OUTPUT, exact::atomics_cases();
    }
    "fast-float2" fast_float2 { fast_float_parse = fast_float2::parse, 24, numbers::texts(); }
    "fixed" fixed { fixed_numbers = fixed::numbers, 160, blocks(64, 200); }
    "glam" glam { glam_f32 = glam::single, 256, numbers::floats(); glam_f64 = glam::double, 256, numbers::floats(); glam_int = glam::whole, 128, blocks(64, 64); }
    "heapless" heapless { heapless_vec = heapless::vec, 96, lengths(200); heapless_map = heapless::map, 160, lengths(200); heapless_heap = heapless::heap, 96, lengths(120); }
    "hex" hex { hex_encode = hex::encode, 420, lengths(200); hex_decode = hex::decode, 160, hex::texts(); }
    "itoa" itoa { itoa_all = itoa::all, 240, blocks(16, 400); }
    "lexical-core" lexical_core {
        lexical_parse = lexical_core::parse, 48, numbers::texts();
        lexical_write = lexical_core::write, 160, blocks(16, 300);
    }
    "libm" libm {
        libm_f32 = libm::single, libm::OUTPUT, libm::singles();
        libm_f64 = libm::double, libm::OUTPUT, libm::doubles();
    }
    "lz4_flex" lz4_flex { lz4_inflate = lz4_flex::inflate, 1032, lz4_flex::cases(); }
    "md-5" md5 { md5_hash = md5::hash, 16, lengths(300); md5_steps = md5::steps, 16, lengths(300); }
    "memchr" memchr { memchr_find = memchr::find, 32, lengths(300); }
    "miniz_oxide" miniz_oxide { miniz_inflate = miniz_oxide::inflate, 1032, miniz_oxide::cases(); }
    "nom" nom { nom_expression = nom::expression, 16, nom::texts(); }
    "num-integer" num_integer { num_integer_all = num_integer::all, 144, blocks(32, 200); }
    "poly1305" poly1305 { poly1305_tag = poly1305::tag, 16, lengths(300); }
    "postcard" postcard { postcard_round = postcard::round, 128, blocks(64, 120); postcard_parse = postcard::parse, 96, lengths(96); }
    "rand_pcg" rand_pcg { pcg = rand_pcg::numbers, 160, blocks(32, 60); }
    "rand_xoshiro" rand_xoshiro { xoshiro = rand_xoshiro::numbers, 160, blocks(64, 60); }
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
    "siphasher" siphasher { siphash = siphasher::hash, 40, lengths(300); }
    "time" time { time_dates = time::dates, 96, blocks(16, 300); }
    "tinyvec" tinyvec { tinyvec_edits = tinyvec::edits, 96, lengths(160); }
    "uuid" uuid { uuid_text = uuid::text, 96, blocks(16, 60); uuid_parse = uuid::parse, 24, uuid::texts(); }
    "xxhash-rust" xxhash { xxhash_all = xxhash::all, 40, lengths(400); }
}

#[cfg(not(target_arch = "nvptx64"))]
mod numbers;
mod out;
