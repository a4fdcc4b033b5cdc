//! Charts in SVG, drawn from the tool's own JSON and from nothing else, so that no figure passes through a hand.
//!
//! | module | holds |
//! |--------|-------|
//! | `svg` | the frame of a picture: title, footer, colours for light and dark |
//! | `ticks` | where an axis has its marks, and how figures are written |
//! | `bars`, `lines` | the two kinds |
//! | `pictures` | which pictures there are, and what each takes from the results |
//! | `embedded` | the front page's picture as text |

mod bars;
mod embedded;
mod lines;
mod pictures;
mod svg;
mod ticks;

use std::fs;
use std::path::Path;

use crate::fault::Fault;
use crate::results::Results;
use crate::tables;

/// The page beside the pictures.
const PAGE: &str = "figures.md";

/// Writes the page, and each picture that the results have the figures for. Of the others it says what they lack, and takes
/// away what an earlier run has drawn: its figures would stand among those of this one.
pub(crate) fn write(results: &Results, folder: &Path) -> Result<(), Fault> {
    fs::create_dir_all(folder).map_err(|error| Fault::file(folder, error))?;
    let page = folder.join(PAGE);
    let figures = tables::page(results).map_err(|lacking| Fault::unfit(&page, lacking))?;
    fs::write(&page, figures).map_err(|error| Fault::file(&page, error))?;
    eprintln!("wrote {}", page.display());
    for (name, draw) in pictures::ALL {
        let path = folder.join(name);
        match draw(results) {
            Ok(picture) => {
                fs::write(&path, &picture).map_err(|error| Fault::file(&path, error))?;
                eprintln!("drew {}", path.display());
                if name == embedded::PICTURE {
                    let path = folder.join(embedded::TEXT);
                    fs::write(&path, embedded::reference(&picture))
                        .map_err(|error| Fault::file(&path, error))?;
                }
            }
            Err(lacking) => {
                if path.exists() {
                    fs::remove_file(&path).map_err(|error| Fault::file(&path, error))?;
                }
                eprintln!("did not draw {}: {lacking}", path.display());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_picture_is_shown_and_every_one_shown_is_drawn() {
        let shown =
            concat!(include_str!("../../../../docs/performance.md"), include_str!("../../../../README.md"));
        let names = shown.split("](").filter_map(|rest| rest.split_once(".svg)")?.0.split_once("charts/"));
        let names: Vec<String> = names.map(|(_, name)| format!("{name}.svg")).collect();
        for (name, _) in pictures::ALL {
            assert!(names.iter().any(|shown| shown == name), "{name} is on no page");
        }
        for name in names {
            assert!(pictures::ALL.iter().any(|(drawn, _)| *drawn == name), "nobody draws {name}");
        }
        assert!(shown.contains(&format!("charts/{PAGE}")));
    }
}
