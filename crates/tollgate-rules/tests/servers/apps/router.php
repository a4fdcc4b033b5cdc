<?php
// What PHP reads of a request, by its own server.
$path = rawurldecode(strtok($_SERVER['REQUEST_URI'], '?'));
$route = preg_match('#^/(login|token)$#', $path, $found) ? $found[1] : 'other';
$is_bearer = preg_match('/^bearer\s+(.*)$/i', $_SERVER['HTTP_AUTHORIZATION'] ?? '', $auth);
echo implode('|', [$route, $is_bearer ? $auth[1] : '-', $_COOKIE['s'] ?? '-', $_SERVER['HTTP_X_API_KEY'] ?? '-']);
