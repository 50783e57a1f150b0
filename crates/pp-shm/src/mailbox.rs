//! Handing a descriptor to another process of the host.
//!
//! The receiver binds a datagram socket to an abstract address: a name in the network namespace, nowhere in a file system, that
//! is gone with the socket in whatever way its process ends. The sender puts the descriptor into a message to that name. Neither
//! needs to see the other's processes, so it works between containers that share a network but not their process ids or users,
//! where opening `/proc/PID/fd/N` does not.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketAddrUnix, recvmsg, sendmsg_addr,
};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::ShmError;

/// Bytes of a mailbox's name, and of the word that tells the right message from any other.
const HALF: usize = 16;

/// Bytes of a mailbox's address.
pub const ADDRESS_BYTES: usize = 2 * HALF;

/// Messages looked at before giving up: whoever reads the name off the system's list of sockets may have sent some.
const ATTEMPTS: usize = 64;

/// Where another process may send a descriptor to.
#[derive(Debug)]
pub struct Mailbox {
    socket: UnixDatagram,
    address: [u8; ADDRESS_BYTES],
}

impl Mailbox {
    /// Opens a mailbox under a name that nobody can guess.
    ///
    /// # Errors
    /// [`ShmError::System`].
    pub fn open() -> Result<Self, ShmError> {
        const WHAT: &str = "open a mailbox";
        let mut address = [0; ADDRESS_BYTES];
        if getrandom(&mut address[..], GetRandomFlags::empty()).map_err(ShmError::system(WHAT))? != ADDRESS_BYTES {
            return Err(ShmError::System { what: WHAT, source: io::ErrorKind::UnexpectedEof.into() });
        }
        let name = SocketAddr::from_abstract_name(&address[..HALF]).map_err(ShmError::system(WHAT))?;
        let socket = UnixDatagram::bind_addr(&name).map_err(ShmError::system(WHAT))?;
        Ok(Self { socket, address })
    }

    /// What the sender needs: the name, which the system shows to everybody, and a word that it does not show, by which the
    /// right message is known. Tell it to nobody else.
    pub const fn address(&self) -> [u8; ADDRESS_BYTES] {
        self.address
    }

    /// Takes out what was delivered to this address; what came with another word is thrown away. It does not wait: a message
    /// is here as soon as [`deliver`] has returned.
    ///
    /// # Errors
    /// [`ShmError::System`], also when nothing has come.
    pub fn collect(&self) -> Result<OwnedFd, ShmError> {
        for _ in 0..ATTEMPTS {
            let (mut word, mut descriptors) = ([0; HALF], Vec::new());
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let came = recvmsg(&self.socket, &mut [IoSliceMut::new(&mut word)], &mut ancillary, flags);
            let came = came.map_err(ShmError::system(COLLECT))?;
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    descriptors.extend(rights);
                }
            }
            if came.bytes == HALF && word == self.address[HALF..] {
                return descriptors.pop().ok_or_else(|| nothing("the message brings none"));
            }
        }
        Err(nothing("it is full of other messages"))
    }
}

const COLLECT: &str = "collect shared memory from a mailbox";

fn nothing(why: &'static str) -> ShmError {
    ShmError::System { what: COLLECT, source: io::Error::other(why) }
}

/// Puts a descriptor into the mailbox at that address. It does not wait.
///
/// # Errors
/// [`ShmError::System`] when there is no such mailbox that this process can reach, or when it is full.
pub fn deliver(address: &[u8; ADDRESS_BYTES], descriptor: &OwnedFd) -> Result<(), ShmError> {
    const WHAT: &str = "put shared memory into the peer's mailbox";
    let (name, word) = address.split_at(HALF);
    let address = SocketAddrUnix::new_abstract_name(name).map_err(ShmError::system(WHAT))?;
    let socket = UnixDatagram::unbound().map_err(ShmError::system(WHAT))?;
    let descriptors = [descriptor.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let sent = sendmsg_addr(&socket, &address, &[IoSlice::new(word)], &mut ancillary, flags);
    sent.map_err(ShmError::system(WHAT))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Consumer, Producer};

    #[test]
    fn a_descriptor_arrives_past_what_strangers_send() {
        let mailbox = Mailbox::open().expect("a free name");
        let address = mailbox.address();
        let (mut producer, memory) = Producer::new(4096).expect("a small ring");
        let (_, other) = Producer::new(4096).expect("a small ring");
        let stranger = UnixDatagram::unbound().expect("a socket");
        let name = SocketAddr::from_abstract_name(&address[..HALF]).expect("a short name");
        stranger.send_to_addr(&[9; 100], &name).expect("anybody may");
        let mut wrong = address;
        wrong[HALF] ^= 1;
        deliver(&wrong, &other).expect("there is a mailbox");
        deliver(&address, &memory).expect("there is a mailbox");
        let memory = mailbox.collect().expect("it was delivered");
        let mut consumer = Consumer::open(&memory).expect("a ring");
        producer.write(b"hello").expect("sound");
        assert_eq!(consumer.read(&mut [MaybeUninit::uninit(); 9]).expect("sound"), b"hello");
        assert!(mailbox.collect().is_err(), "it is empty now");
    }

    #[test]
    fn without_a_mailbox_and_without_an_end_nothing_waits() {
        let (_, memory) = Producer::new(4096).expect("a small ring");
        let mailbox = Mailbox::open().expect("a free name");
        assert_ne!(Mailbox::open().expect("a free name").address(), mailbox.address());
        let full = (0..10_000).find_map(|_| deliver(&mailbox.address(), &memory).err()).expect("it gets full");
        assert!(full.to_string().contains("mailbox"), "{full}");
        let address = mailbox.address();
        drop(mailbox);
        let error = deliver(&address, &memory).expect_err("nobody has that name any more");
        assert!(error.to_string().contains("mailbox"), "{error}");
    }
}
