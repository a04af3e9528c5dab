//! AF_XDP sockets, rings, packet memory and XDP programs.

pub mod kick;
