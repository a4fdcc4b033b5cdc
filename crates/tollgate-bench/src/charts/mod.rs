//! Charts in SVG, generated from the JSON of a run only, with the shapes, scales and marks of
//! [`tollgate_cli::plot`].
//!
//! | module | holds |
//! |--------|-------|
//! | `svg` | the frame of a picture: title, footer, colours for light and dark |
//! | `bars`, `lines` | the two kinds of charts |
//! | `pictures` | the pictures, and the figures that each takes from the results |
//! | `embedded` | the front page's picture as text |

mod bars;
mod embedded;
mod lines;
mod pictures;
mod svg;

use std::fs;
use std::path::Path;

use crate::error::BenchError;
use crate::results::Results;
use crate::tables;

/// The page of all figures, in the same folder.
const PAGE: &str = "figures.md";

/// Writes the page, and each picture for which there are figures. For other pictures it prints the
/// missing figure and removes the picture of an earlier run, which would not belong to the page.
pub(crate) fn write(results: &Results, folder: &Path) -> Result<(), BenchError> {
    fs::create_dir_all(folder).map_err(|error| BenchError::file(folder, error))?;
    let page = folder.join(PAGE);
    let figures = tables::page(results).map_err(|missing| BenchError::invalid(&page, missing))?;
    fs::write(&page, figures).map_err(|error| BenchError::file(&page, error))?;
    eprintln!("wrote {}", page.display());
    for (name, draw) in pictures::ALL {
        let path = folder.join(name);
        match draw(results) {
            Ok(picture) => {
                fs::write(&path, &picture).map_err(|error| BenchError::file(&path, error))?;
                eprintln!("drew {}", path.display());
                if name == embedded::PICTURE {
                    let path = folder.join(embedded::TEXT);
                    fs::write(&path, embedded::reference(&picture))
                        .map_err(|error| BenchError::file(&path, error))?;
                }
            }
            Err(missing) => {
                if path.exists() {
                    fs::remove_file(&path).map_err(|error| BenchError::file(&path, error))?;
                }
                eprintln!("did not draw {}: {missing}", path.display());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_show_exactly_the_pictures() {
        let shown = concat!(
            include_str!("../../../../docs/why/performance.md"),
            include_str!("../../../../README.md")
        );
        let names = shown.split("](").filter_map(|rest| rest.split_once(".svg)")?.0.split_once("charts/"));
        let names: Vec<String> = names.map(|(_, name)| format!("{name}.svg")).collect();
        for (name, _) in pictures::ALL {
            assert!(names.iter().any(|shown| shown == name), "{name} is on no page");
        }
        for name in names {
            assert!(pictures::ALL.iter().any(|(drawn, _)| *drawn == name), "{name} is not drawn");
        }
        assert!(shown.contains(&format!("charts/{PAGE}")));
    }
}
