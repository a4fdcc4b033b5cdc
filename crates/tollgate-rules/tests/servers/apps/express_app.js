// What Express reads of a request, with its own library for cookies.
const express = require('express');
const cookies = require('cookie');

const parse = cookies.parseCookie || cookies.parse;
const app = express();

function read(route) {
  return (request, response) => {
    const auth = /^bearer +(.*)$/i.exec(request.get('Authorization') || '');
    const parts = [route, auth && auth[1], parse(request.get('Cookie') || '').s, request.get('X-Api-Key')];
    response.send(parts.map((part) => part || '-').join('|'));
  };
}

app.get('/login', read('login'));
app.get('/token', read('token'));
app.use(read('other'));
app.listen(Number(process.argv[2]), '127.0.0.1');
