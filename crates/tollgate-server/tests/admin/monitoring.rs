//! The dashboard, the alerts and the page about metrics, against a live server.
