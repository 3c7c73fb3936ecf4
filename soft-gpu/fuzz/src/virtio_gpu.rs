//! Requests of a guest to the virtio-gpu device.

#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::virtio_gpu::Request;

fuzz_target!(|data: &[u8]| {
    if let Ok(request) = Request::decode(data) {
        assert_eq!(Request::decode(&request.encode()), Ok(request));
    }
});
