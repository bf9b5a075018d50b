//! The hash algorithms of signatures (RFC 9580, 9.5).

use aws_lc_rs::digest::{self, Algorithm};
use aws_lc_rs::signature::{
    RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RsaParameters,
};

/// What a signature is by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
pub(super) enum HashKind {
    #[strum(to_string = "MD5")]
    Md5,
    #[strum(to_string = "SHA1")]
    Sha1,
    #[strum(to_string = "RIPEMD160")]
    Ripemd160,
    #[strum(to_string = "SHA256")]
    Sha256,
    #[strum(to_string = "SHA384")]
    Sha384,
    #[strum(to_string = "SHA512")]
    Sha512,
    #[strum(to_string = "SHA224")]
    Sha224,
    #[strum(to_string = "SHA3-256")]
    Sha3With256,
    #[strum(to_string = "SHA3-512")]
    Sha3With512,
    #[strum(to_string = "an unknown hash algorithm")]
    Unknown,
}

impl HashKind {
    pub(super) fn of_number(number: u8) -> Self {
        match number {
            1 => Self::Md5,
            2 => Self::Sha1,
            3 => Self::Ripemd160,
            8 => Self::Sha256,
            9 => Self::Sha384,
            10 => Self::Sha512,
            11 => Self::Sha224,
            12 => Self::Sha3With256,
            14 => Self::Sha3With512,
            _ => Self::Unknown,
        }
    }

    /// Whether a signature of data may be by it. What an owner says of a key may be by weaker ones: old keys have
    /// nothing else, and nobody but the owner chooses what is hashed there.
    pub(super) fn is_secure(self) -> bool {
        match self {
            Self::Sha256 | Self::Sha384 | Self::Sha512 | Self::Sha3With256 | Self::Sha3With512 => true,
            Self::Md5 | Self::Sha1 | Self::Ripemd160 | Self::Sha224 | Self::Unknown => false,
        }
    }

    /// `None` for what is not computed here. Nobody has had reason to use MD5 or RIPEMD-160 for twenty years, and MD5
    /// proves nothing.
    pub(super) fn algorithm(self) -> Option<&'static Algorithm> {
        match self {
            Self::Sha1 => Some(&digest::SHA1_FOR_LEGACY_USE_ONLY),
            Self::Sha224 => Some(&digest::SHA224),
            Self::Sha256 => Some(&digest::SHA256),
            Self::Sha384 => Some(&digest::SHA384),
            Self::Sha512 => Some(&digest::SHA512),
            Self::Sha3With256 => Some(&digest::SHA3_256),
            Self::Sha3With512 => Some(&digest::SHA3_512),
            Self::Md5 | Self::Ripemd160 | Self::Unknown => None,
        }
    }

    /// How signatures of RSA by it are verified. The library has no others.
    pub(super) fn rsa_parameters(self) -> Option<&'static RsaParameters> {
        match self {
            Self::Sha1 => Some(&RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY),
            Self::Sha256 => Some(&RSA_PKCS1_2048_8192_SHA256),
            Self::Sha384 => Some(&RSA_PKCS1_2048_8192_SHA384),
            Self::Sha512 => Some(&RSA_PKCS1_2048_8192_SHA512),
            Self::Md5 | Self::Ripemd160 | Self::Sha224 | Self::Sha3With256 | Self::Sha3With512 | Self::Unknown => None,
        }
    }

    /// How long the salt of a signature of version 6 is (RFC 9580, 9.5). The others do not sign in that version.
    pub(super) fn salt_length(self) -> Option<usize> {
        match self {
            Self::Sha224 | Self::Sha256 | Self::Sha3With256 => Some(16),
            Self::Sha384 => Some(24),
            Self::Sha512 | Self::Sha3With512 => Some(32),
            Self::Md5 | Self::Sha1 | Self::Ripemd160 | Self::Unknown => None,
        }
    }
}
