//! What guest and worker say to each other.

#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::wire::{Answer, Command, Request, Submission, tree};

fuzz_target!(|data: &[u8]| {
    let Some((&id, bytes)) = data.split_first() else { return };
    let mut again = Vec::new();
    if let Ok(request) = Request::decode(id.into(), bytes) {
        request.encode(&mut again);
        assert_eq!(again, bytes);
    }
    if let Some(command) = Command::from_id(id.into())
        && let Ok(answer) = Answer::decode(command, bytes)
    {
        again.clear();
        answer.encode(&mut again);
        assert_eq!(again, bytes);
    }
    if let Ok(submission) = Submission::decode(bytes) {
        assert_eq!(submission.encode().as_slice(), bytes);
    }
    if let Ok(files) = tree::decode(bytes) {
        assert_eq!(tree::encode(&files), bytes);
    }
});
