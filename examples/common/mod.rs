//! Code that several examples share: their error type, and the choice of a device on the command line.

use std::error::Error;
use std::str::FromStr;

/// A result with any error type. The examples only print errors.
pub(crate) type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// The argument of `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceChoice {
    /// The first GPU where there is one, else the host.
    Auto,
    /// Plain host memory.
    Host,
    /// The GPU with this ordinal.
    Cuda(usize),
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ordinal = match text {
            "auto" => return Ok(Self::Auto),
            "host" => return Ok(Self::Host),
            _ => text.strip_prefix("cuda:").and_then(|ordinal| ordinal.parse().ok()),
        };
        ordinal.map(Self::Cuda).ok_or_else(|| "say auto, host or cuda:N, where N is the GPU's number".to_owned())
    }
}

impl DeviceChoice {
    /// # Errors
    /// If the command line names a GPU, in a program that was built without the feature `cuda`.
    #[cfg(not(feature = "cuda"))]
    pub(crate) fn refuse_gpu(self) -> Result<()> {
        match self {
            Self::Auto | Self::Host => Ok(()),
            Self::Cuda(_) => Err("this program was built without the feature `cuda`: use --device host".into()),
        }
    }

    /// Opens the GPU of the command line. `None` means the host, because the command line names it or because `auto` found no GPU.
    ///
    /// # Errors
    /// The error of `open`, if the command line names the GPU by its number.
    #[cfg(feature = "cuda")]
    pub(crate) fn open_gpu<G>(self, open: impl FnOnce(usize) -> Result<G>) -> Result<Option<G>> {
        match self {
            Self::Host => Ok(None),
            Self::Cuda(ordinal) => open(ordinal).map(Some),
            Self::Auto => Ok(open(0).inspect_err(|why| eprintln!("running on the host: {why}")).ok()),
        }
    }
}

/// Returns an error unless this CUDA library is `present`. Without this check, cudarc would panic at its first use.
#[cfg(feature = "cuda")]
pub(crate) fn library(name: &str, present: bool) -> Result<()> {
    if present {
        return Ok(());
    }
    Err(format!(
        "there is a GPU, but no {name} library: install the CUDA toolkit, or add its folder to LD_LIBRARY_PATH, or use \
         --device host"
    )
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_as_on_the_command_line() {
        assert_eq!("auto".parse(), Ok(DeviceChoice::Auto));
        assert_eq!("host".parse(), Ok(DeviceChoice::Host));
        assert_eq!("cuda:3".parse(), Ok(DeviceChoice::Cuda(3)));
        for wrong in ["", "cuda", "cuda:", "cuda:-1", "gpu"] {
            assert!(wrong.parse::<DeviceChoice>().is_err(), "{wrong:?} names no device");
        }
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn only_auto_falls_back_to_the_host() {
        let no_gpu = |_| Err::<(), _>("no GPU".into());
        assert_eq!(DeviceChoice::Auto.open_gpu(no_gpu).unwrap(), None);
        assert!(DeviceChoice::Cuda(0).open_gpu(no_gpu).is_err());
        assert_eq!(DeviceChoice::Cuda(2).open_gpu(Ok).unwrap(), Some(2));
        assert_eq!(DeviceChoice::Host.open_gpu(Ok).unwrap(), None);
    }
}
