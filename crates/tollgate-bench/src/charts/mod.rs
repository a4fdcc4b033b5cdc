//! Charts in SVG, drawn from the tool's own JSON and from nothing else, so that no figure passes through a hand.
//!
//! | module | holds |
//! |--------|-------|
//! | `svg` | the frame of a picture: title, footer, colours for light and dark |
//! | `ticks` | where an axis has its marks, and how figures are written |
//! | `bars`, `lines` | the two kinds |
//! | `pictures` | which pictures there are, and what each takes from the results |

mod bars;
mod lines;
mod pictures;
mod svg;
mod ticks;

use std::fs;
use std::path::Path;

use crate::fault::Fault;
use crate::results::Results;

/// Writes each picture that the results have the figures for, and says of the others what they lack.
pub(crate) fn write(results: &Results, folder: &Path) -> Result<(), Fault> {
    fs::create_dir_all(folder).map_err(|error| Fault::file(folder, error))?;
    for (name, draw) in pictures::ALL {
        let path = folder.join(name);
        match draw(results) {
            Ok(picture) => {
                fs::write(&path, picture).map_err(|error| Fault::file(&path, error))?;
                eprintln!("drew {}", path.display());
            }
            Err(lacking) => eprintln!("did not draw {}: {lacking}", path.display()),
        }
    }
    Ok(())
}
