//! What a process of a job links: attach, peers, waiting.
