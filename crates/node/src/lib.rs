//! The starter of a job on a node.
